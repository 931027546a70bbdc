// Forms with a price: the price follows what is typed, and its button never pays for anything else.
"use strict";

(() => {
  // So long after the last key, or the last choice, the price is asked for.
  const TYPING_MS = 400, CHOOSING_MS = 150;

  // What a form says, but for what its price brought along.
  function saying(form) {
    const fields = [...new FormData(form)].filter(([name]) => !name.startsWith("priced"));
    return new URLSearchParams(fields).toString();
  }

  // Ctrl+Enter, or Cmd+Enter, but not while a word is being put together.
  const isAsking = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing;

  // ---- fields that are wrong ----------------------------------------------------------------

  function describe(input, isWrong) {
    const others = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && id !== "fault");
    const ids = isWrong ? ["fault", ...others] : others;
    if (ids.length) input.setAttribute("aria-describedby", ids.join(" ")); else input.removeAttribute("aria-describedby");
    if (isWrong) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
  }

  function markFaults(form) {
    const wrong = JSON.parse(form.querySelector("#price [data-fields]")?.dataset.fields ?? "[]");
    for (const input of form.querySelectorAll("[aria-invalid]")) describe(input, false);
    for (const input of form.elements) {
      if (!wrong.includes(input.name)) continue;
      describe(input, true);
      input.closest("details")?.setAttribute("open", "");
    }
  }

  // ---- the price ----------------------------------------------------------------------------

  function noReply(price, again) {
    const notice = document.createElement("p"), button = document.createElement("button");
    notice.className = "notice bad";
    notice.textContent = "The server did not answer, so the price is not known.";
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Try again";
    button.addEventListener("click", again);
    price.replaceChildren(notice, button);
  }

  // `shown` is what the form said when the price that is shown was asked for, `underway` what it said
  // for the price that is still to come, `wantsToAsk` whether Ctrl+Enter came before it.
  function keepPriceTrue(form) {
    const price = form.querySelector("#price");
    const first = saying(form);
    let shown = price.querySelector("[name=priced]") ? first : null;
    let underway = null, timer = 0, wantsToAsk = false;
    const isTrue = () => shown !== null && shown === saying(form);

    function tell() {
      const isLate = !isTrue() && (timer !== 0 || underway !== null);
      form.classList.toggle("stale", isLate);
      price.setAttribute("aria-busy", String(isLate));
      for (const button of price.querySelectorAll("button.button")) button.disabled = !isTrue() || "off" in button.dataset;
    }

    function getPrice() {
      clearTimeout(timer);
      timer = 0;
      if (!isTrue() && underway !== saying(form)) form.dispatchEvent(new CustomEvent("price"));
      tell();
    }

    function changed(delay) {
      wantsToAsk = false;
      clearTimeout(timer);
      timer = isTrue() ? 0 : setTimeout(getPrice, delay);
      tell();
    }

    // What costs nothing is asked at once; any other price is seen before it is paid.
    function ask() {
      const button = price.querySelector("button.button");
      if (!isTrue()) {
        wantsToAsk = true;
        getPrice();
      } else if (button && !button.disabled) form.requestSubmit(button);
    }

    function priceCame(says) {
      shown = says;
      markFaults(form);
      // On a phone the place of a mistake may be below the keys.
      price.querySelector(".excerpt")?.scrollIntoView({ block: "nearest" });
      tell();
      const button = price.querySelector("button.button");
      if (wantsToAsk && button && !button.disabled) {
        if (!("ask" in button.dataset)) return form.requestSubmit(button);
        price.querySelector("[data-again]").hidden = false;
      }
      wantsToAsk = false;
    }

    // The slider's places have exact prices: moving it asks the server nothing.
    function stopMoved(stop) {
      // Where the answer was free there is no button that pays: a price is asked for.
      const button = price.querySelector("[data-ask]"), isKnown = isTrue() && (button || stop.price === 0);
      for (const input of form.querySelectorAll(isKnown ? "[name=within], [name=priced_within]" : "[name=within]")) input.value = stop.text;
      for (const said of price.querySelectorAll("[data-price]")) said.textContent = stop.shown;
      for (const notice of price.querySelectorAll("[data-too-much]")) notice.hidden = stop.affordable;
      button?.toggleAttribute("data-off", !stop.affordable || !("alive" in button.dataset));
      if (!isKnown) return changed(CHOOSING_MS);
      shown = saying(form);
      tell();
    }

    const isSlider = (event) => event.target.id === "stop";
    form.addEventListener("input", (event) => { if (!isSlider(event)) changed(TYPING_MS); });
    form.addEventListener("change", (event) => { if (!isSlider(event)) changed(CHOOSING_MS); });
    form.addEventListener("stop", (event) => stopMoved(event.detail));
    form.addEventListener("keydown", (event) => { if (isAsking(event)) { event.preventDefault(); ask(); } });
    // A browser may fill the form as it was left, after the page is there.
    addEventListener("pageshow", () => { if (saying(form) !== (underway ?? shown ?? first)) changed(0); });
    form.addEventListener("htmx:config:request", (event) => {
      event.detail.ctx.says = underway = saying(form);
      tell();
    });
    form.addEventListener("htmx:before:swap", (event) => {
      // A price of what the form said before is no use.
      if (event.detail.ctx.says !== saying(form)) event.preventDefault();
    });
    form.addEventListener("htmx:after:swap", (event) => priceCame(event.detail.ctx.says));
    form.addEventListener("htmx:error", () => {
      shown = null;
      noReply(price, getPrice);
    });
    form.addEventListener("htmx:finally:request", (event) => {
      if (underway === event.detail.ctx.says) underway = null;
      tell();
    });
  }

  // ---- keys ---------------------------------------------------------------------------------

  // At once, and before htmx is there: it asks for the first price as soon as it can.
  document.querySelectorAll("form.ask").forEach(keepPriceTrue);
  // Enter in a field that only finds attributes sends no form.
  document.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.matches?.("[data-find]")) event.preventDefault(); });
  for (const form of document.querySelectorAll("form[data-keys]")) {
    form.addEventListener("keydown", (event) => { if (isAsking(event)) { event.preventDefault(); form.requestSubmit(); } });
  }
})();
