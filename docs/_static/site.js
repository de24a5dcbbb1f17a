"use strict";
/* Whatever scrolls sideways can be reached with Tab, so that arrow keys scroll it. */
{
  const update = () => {
    for (const box of document.querySelectorAll("article pre, article .table-wrapper")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  addEventListener("load", update);
  addEventListener("resize", update);
  document.addEventListener("toggle", update, true);
}
