"use strict";
/* What words mean, at the place where they are used: every section has a list of the terms that occur in it. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { el, fill } = ridgeformer.dom;

  /** A term, how to see that a text uses it, and what it means. Kinds and baselines come from their registries. */
  const TERMS = [
    ["sequence", /sequence/i, "One regression problem: examples (x, y) of a hidden rule, and a query. Every sequence has a rule and a noise level of its own."],
    ["linear attention", /linear attention/i, "Attention without a softmax: a layer adds to every token sums of products of tokens."],
    ["query, target", /quer(y|ies)|\btarget/i, "The query is the new x at which y is asked for. The target is the true y there, without noise."],
    ["σ", /σ/, "The noise level of a sequence: the standard deviation of the noise in y."],
    ["noise prior", /\bpriors?\b|U\(0, \d|\bU\d|\{1, ?3/, "Where σ of a sequence comes from. U(0, 5), or U5: uniformly between 0 and 5. {1, 3}: one of these two values."],
    ["loss, error", /\bloss|\berror/i, "Half the squared error of a prediction, averaged over queries and sequences."],
    ["oracle", /oracle/i, "Ridge regression that is told σ of each sequence. On average nothing is better."],
    ["adjusted loss", /adjusted/i, "The loss minus the oracle’s loss on the same sequences: zero is perfect."],
    ["kind, layers", /\b(GD\+\+|DIAG|FULL) \d|\blayers?\b/, "FULL 7 is a model of the kind FULL with 7 layers. Each layer changes all tokens once; together they are the steps of an optimiser."],
    ["heads", /\bheads?\b/i, "A layer with several heads adds up several updates, each with matrices of its own."],
    ["ridge regression, penalty", /\bridge|RR\b|penalty|residual/i, "Least squares with a penalty on large weights. The more noise, the larger the right penalty: σ² is best."],
    ["w, ŵ, w*", /ŵ|w\*|implicit weights|true w/, "w: the true rule. ŵ: the weights that a model’s answer stands for; its prediction at x is ⟨ŵ, x⟩. w*: the oracle’s weights."],
    ["preconditioning", /precondition/i, "Changing the coordinates so that one gradient step goes far in every direction."],
    ["gradient step, momentum", /gradient|momentum|steepest/i, "A gradient step changes ŵ in the direction in which the squared error of the examples falls fastest. Momentum keeps some of the earlier steps."],
    ["ω", /ω/, "The four numbers of a DIAG layer. The first letter says what is changed, the second by what: the one with yx changes y by multiples of x."],
    ["P, Q, block", /\bP\b.*\bQ\b|blocks? of|four blocks/s, "The two matrices of a FULL layer: it changes a token e by P G Q e, where G is the sum of e eᵀ over the examples. A block is the part between features x and target y."],
    ["outlier, sd", /outlier|\bsd\b/i, "A number added to the target of the first example; sd counts it in standard deviations of y."],
    ["read out", /read out|after each layer|after layer/i, "The prediction that the model would give if it ended after this layer."],
    ["linear in y", /linear in y/, "Twice the targets give twice the answer. Such a method cannot tell much noise from large weights."],
    ["95 % interval", /95 %|interval/, "The true mean is in it in 95 of 100 such measurements. It is about two standard errors to each side."],
    ["seeds", /\bseeds?\b|\bstream\b/, "Names of random numbers: the same seed gives the same weights at the start and the same sequences."],
    ["shift, survive", /\bshift|survive/i, "A shift makes sequences unlike those of the training. A method survives if its loss is not made up of a few sequences and at most a quarter above AdaRR’s."],
    ["condition number", /condition number/i, "How much more the features vary in one direction than in another."],
    ["singular values, low rank", /singular values|low-rank/, "How strongly a matrix stretches each direction. Low rank: only a few directions are stretched at all."],
    ["confirmed, partly, refuted", /\b(confirmed|partly|refuted)\b/, "Our verdict on a statement of the paper, by the numbers below it."],
  ];

  /** The terms of a text, as pairs of a word and its meaning. */
  function termsIn(text) {
    const own = TERMS.filter(([, pattern]) => pattern.test(text)).map(([term, , meaning]) => [term, meaning]);
    const methods = Object.values(ridgeformer.methods)
      .filter(({ label, summary }) => summary && label !== "Oracle" && text.includes(label))
      .map(({ label, summary }) => [label, summary]);
    const kinds = ridgeformer.kindSummaries.filter(([label]) => text.includes(label));
    const limit = /Bayes predictor/.test(text) && !/Bayes limit/.test(text);
    return [...own, ...kinds, ...methods, ...(limit ? [["Bayes predictor", ridgeformer.methods.bayes.summary]] : [])];
  }

  /**
   * A list, closed at first, of what the words of a section mean; found again each time it is opened.
   * @param {HTMLElement} section
   * @returns {HTMLElement}
   */
  function terms(section) {
    const list = el("dl", { class: "commands definitions" });
    const box = el("details", { class: "terms" }, el("summary", {}, "What the words here mean"), list);
    const withoutList = () => [...section.children].filter((child) => child !== box).map((child) => child.innerText);
    box.addEventListener("toggle", () => {
      if (!box.open) return;
      fill(list, termsIn(withoutList().join(" ")).map(([term, meaning]) => [el("dt", {}, term), el("dd", {}, meaning)]));
    });
    return box;
  }

  ridgeformer.kindSummaries = [
    ["FULL", "A kind of model: every layer has two whole matrices."],
    ["DIAG", "A kind of model: every layer has four numbers, which say how x and y move along x and y."],
    ["GD++", "A kind of model: DIAG with two of the four numbers, a preconditioner and a gradient step."],
  ];
  ridgeformer.terms = terms;
}
