"use strict";
/* What words mean, at the place where they are used: every section has a list of the terms that occur in it. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { el, fill } = ridgeformer.dom;

  /** A term, how to see that a text uses it, and what it means. Baselines come from their registry. */
  const TERMS = [
    ["sequence", /sequence/i, "One regression problem: examples (x, y) of a hidden rule, and a query. Every sequence has a rule and a noise level of its own."],
    ["linear attention", /linear attention/i, "Attention without a softmax: a layer adds to every token sums of products of tokens."],
    ["token", /\btokens?\b/i, "The numbers of one example, (x, y). The token of the query is (x, 0)."],
    ["query, target", /quer(y|ies)|\btarget/i, "The query is the new x at which the model has to predict y. Its target is the true y there, without noise. The target of an example is its y."],
    ["σ", /σ/, "The noise level of a sequence: the standard deviation of the noise in y."],
    ["noise prior", /\bpriors?\b|σmax|U\(0, \d|\bU\d|\{1, ?3/, "How σ of a sequence is drawn. U(0, 5), or U5: uniformly between 0 and σmax = 5. {1, 3}: one of these two values, each as likely."],
    ["loss, error", /\bloss|\berror/i, "Half the squared error of a prediction, averaged over queries and sequences. For weights ŵ this is ½‖ŵ − w‖²."],
    ["oracle", /oracle/i, "Ridge regression that is told σ of each sequence. On average nothing is better."],
    ["adjusted loss", /adjusted/i, "The loss minus the oracle’s loss on the same sequences: zero is perfect."],
    ["kind, layers", /\b(GD\+\+|DIAG|FULL) \d|\blayers?\b/, "The kind says what a layer can do: GD++, DIAG or FULL. FULL 7 is a model of the kind FULL with 7 layers. Each layer changes all tokens once; together the layers are the steps of an optimiser."],
    ["heads", /\bheads?\b/i, "A layer with several heads adds up several updates, each with its own matrices or ω."],
    ["registers", /\bregisters?\b/i, "Further numbers in every token, zero at the beginning, in which layers can keep what they computed."],
    ["ridge regression, penalty", /\bridge|RR\b|penalty|residual/i, "Least squares with a penalty on large weights. The more noise, the larger the penalty should be: σ² is best."],
    ["residual", /residual/i, "The y of an example minus what the method predicts for it."],
    ["w, ŵ, w*", /ŵ|w\*|⟨w|implicit weights|true w/, "w: the true weights of the rule. ŵ, the implicit weights: those for which the model’s prediction at x is ⟨ŵ, x⟩, the sum of products of ŵ and x. w*: the oracle’s weights."],
    ["preconditioning", /precondition/i, "Changing the coordinates of x so that one gradient step makes good progress in every direction."],
    ["gradient step, momentum", /gradient|momentum|steepest/i, "A gradient step changes ŵ in the direction in which the squared error of the examples falls fastest. With momentum, a step also repeats a part of the earlier steps."],
    ["ω", /ω/, "The four numbers of a DIAG layer. The first letter of the index says what is changed, the second by what: the one with yx changes y by multiples of x."],
    ["P, Q, block", /\bP\b.*\bQ\b|blocks? of|four blocks/s, "P and Q are the two matrices of a FULL layer. The layer adds P G Q e to a token e, where G is the sum of e eᵀ over the examples. A block is a part of such a matrix: xy is the part with the rows of x and the column of y."],
    ["outlier, sd", /outlier|\bsd\b/i, "A number added to the target of the first example; sd counts it in standard deviations of y."],
    ["read out", /read out|after (each|layer|K)\b|^After\b/im, "An answer read out after a layer is the prediction that the model would give if it ended there."],
    ["linear in y", /linear in y/, "If all y are doubled, the answer is doubled. Such a method cannot distinguish strong noise from large weights."],
    ["95 % interval", /95 %|interval/, "The true mean is inside such an interval in 95 of 100 measurements. It goes about two standard errors to each side."],
    ["standard error", /standard errors?|±|sampling error/, "How far a measured mean is typically from the true mean, because only so many sequences were drawn."],
    ["median, 99 %, worst", /\bmedian\b/, "Half of the sequences have a loss below the median, and 99 % below the second number. A few sequences can have a very large loss."],
    ["log scale", /log scale/, "Equal distances on the axis are equal factors."],
    ["geometric mean", /geometric mean/i, "The mean on a log scale: the mean of logarithms, turned back into a number."],
    ["seeds", /\bseeds?\b|\bstream\b/, "A seed or stream numbers the random draws: the same seed gives the same initial weights and the same sequences."],
    ["shift, survive", /\bshift|survive/i, "A shift is a way in which sequences differ from those of the training. A method survives a shift if its loss is at most a quarter above AdaRR’s and does not come from a few sequences only."],
    ["Student’s t, ν", /Student/, "A distribution of the noise with more large values than the normal one; the smaller ν, the more."],
    ["stage, run", /\bstages?\b/, "A run is the training of one model. It has several stages: parts with their own starting point and method of optimisation."],
    ["condition number", /condition number/i, "How much more the features vary in one direction than in another."],
    ["singular values, low rank", /singular values|low[ -]rank/, "Singular values say how strongly a matrix stretches each direction. In a matrix of low rank, all but a few of them are nearly zero."],
    ["confirmed, partly, refuted", /\b(confirmed|partly|refuted)\b/, "Our verdict on a statement of the paper: it holds in all cases that we measured, in some of them, or in none. The numbers are below it."],
    ["cell", /\bcells?\b/, "One model of Table 1: a kind, a number of layers, and a noise prior."],
  ];

  const KINDS = [
    ["FULL", "A kind of model: every layer has two whole matrices, P and Q."],
    ["DIAG", "A kind of model: every layer has four numbers ω, which say how much x and y change by multiples of x and of y."],
    ["GD++", "A kind of model: DIAG with only two of the four ω, one for a preconditioner and one for a gradient step."],
  ];

  /** The terms of a text, and those that their meanings use, as pairs of a word and its meaning. */
  function termsIn(text) {
    const found = termsOf(text);
    const explained = termsOf([text, ...found.map(([, meaning]) => meaning)].join("\n"));
    return explained.length === found.length ? found : termsIn([text, ...explained.map(([, meaning]) => meaning)].join("\n"));
  }

  /** The terms that a text itself uses. */
  function termsOf(text) {
    const own = TERMS.filter(([, pattern]) => pattern.test(text)).map(([term, , meaning]) => [term, meaning]);
    const methods = Object.values(ridgeformer.methods)
      .filter(({ label, summary }) => summary && label !== "Oracle" && text.includes(label))
      .map(({ label, summary }) => [label, summary]);
    const kinds = KINDS.filter(([label]) => text.includes(label));
    const limit = /Bayes predictor/.test(text) && !/Bayes limit/.test(text);
    return [...own, ...kinds, ...methods, ...(limit ? [["Bayes predictor", ridgeformer.methods.bayes.summary]] : [])];
  }

  /**
   * A list, closed at first, of what the words of a section mean. It follows what the section shows while it is open.
   * @param {HTMLElement} section
   * @returns {HTMLElement}
   */
  function terms(section) {
    const list = el("dl", { class: "commands definitions" });
    const box = el("details", { class: "terms" }, el("summary", {}, "What the words here mean"), list);
    const withoutList = () => [...section.children].filter((child) => child !== box).map((child) => child.innerText);
    const update = () => {
      if (!box.open) return;
      const found = termsIn(withoutList().join("\n"));
      fill(list, found.map(([term, meaning]) => [el("dt", {}, term), el("dd", {}, meaning)]));
    };
    box.addEventListener("toggle", update);
    // A frame later the section has drawn what was chosen.
    for (const event of ["click", "change", "keyup"]) {
      section.addEventListener(event, () => box.open && requestAnimationFrame(() => requestAnimationFrame(update)));
    }
    return box;
  }

  ridgeformer.terms = terms;
}
