// Looks at pages in a frame, which is as wide as a screen, and reports what does not fit or is not legible.
const frame = document.querySelector("iframe");
const next = () => new Promise((done) => frame.contentWindow.requestAnimationFrame(() => done()));

async function open(path) {
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.src = path;
  await loaded;
  const page = frame.contentDocument;
  // The theme's closed search box lies beyond the edge, and is hidden there; colours must not fade in.
  const rules = page.head.appendChild(page.createElement("style"));
  rules.textContent = ".md-search { display: none } * { transition: none !important }";
  for (const image of page.images) image.loading = "eager";
  await page.fonts.ready;
  await Promise.all([...page.images].map((image) => image.decode().catch(() => undefined)));
}

const style = (element) => frame.contentWindow.getComputedStyle(element);
const named = (element) => `${element.localName}.${element.className} "${element.textContent.trim().slice(0, 40)}"`;

// What a reader must open does not count.
function screens(path, width) {
  const most = { performance: 5, reference: 16 }[path.split(/[/.]/)[0]];
  const number = frame.contentDocument.scrollingElement.scrollHeight / 900;
  return width > 600 && number > most ? [`page takes ${number.toFixed(1)} screens`] : [];
}

function scrolls(element) {
  for (let e = element.parentElement; e; e = e.parentElement)
    if (["auto", "scroll"].includes(style(e).overflowX)) return true;
  return false;
}

function fits(width) {
  const page = frame.contentDocument, found = [];
  if (page.scrollingElement.scrollWidth > width) found.push(`page is ${page.scrollingElement.scrollWidth} wide`);
  for (const element of page.querySelectorAll("article *")) {
    const box = element.getBoundingClientRect(), { overflowX, overflowY, display } = style(element);
    if (!box.width || element.closest("math *")) continue;
    if (box.right > width + 1 && !scrolls(element)) found.push(`beyond the edge: ${named(element)}`);
    if (["inline", "contents"].includes(display) || box.width < 3) continue;
    const high = element.scrollHeight > element.clientHeight + 1, wide = element.scrollWidth > element.clientWidth + 1;
    if (overflowX === "hidden" && wide) found.push(`cut off at the side: ${named(element)}`);
    if (overflowY !== "visible" && high && !element.matches(".formula, nav *")) found.push(`cut off below, ${element.scrollHeight - element.clientHeight} pixels: ${named(element)}`);
  }
  for (const formula of page.querySelectorAll(".formula")) {
    if (style(formula).overflowY !== "hidden") found.push(`formula has a scroll bar: ${named(formula)}`);
    const goesOn = formula.scrollWidth > formula.clientWidth + 1;
    if (goesOn && style(formula).backgroundImage === "none") found.push(`formula goes on without a sign: ${named(formula)}`);
    const around = formula.getBoundingClientRect();
    for (const part of formula.querySelectorAll("math *")) {
      const box = part.getBoundingClientRect();
      if (box.top < around.top - 1 || box.bottom > around.bottom + 1) found.push(`formula is clipped: ${named(part)}`);
    }
  }
  return found;
}

function pictures() {
  const found = [];
  for (const image of frame.contentDocument.querySelectorAll("article img")) {
    const shown = image.getBoundingClientRect().width, name = image.getAttribute("src");
    const column = image.closest("p, article").clientWidth;  // half of the page where two stand side by side
    if (!image.naturalWidth) found.push(`${name} does not load`);
    else if (image.closest(".lessons")) continue;  // small, with links to pages that show them in full
    else if (!/\.svg$/.test(name) && shown > image.naturalWidth) found.push(`${name} is enlarged`);
    else if (shown < 0.9 * Math.min(column, image.naturalWidth, 440)) found.push(`${name} is ${shown} wide in ${column}`);
    else if (shown < 0.25 * image.naturalWidth) found.push(`${name} is shrunk to ${shown}`);
  }
  return found;
}

const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 40 });
const pen = canvas.getContext("2d", { willReadFrequently: true });
function drawn(character, font) {
  pen.clearRect(0, 0, 40, 40);
  pen.font = font;
  pen.fillText(character, 8, 28);
  return pen.getImageData(0, 0, 40, 40).data.join();
}

// A character without a glyph is drawn as the box of one that has none in any font.
const known = new Map();
function glyphs() {
  const found = [], walker = frame.contentDocument.createTreeWalker(frame.contentDocument.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (["SCRIPT", "STYLE", "NOSCRIPT"].includes(parent.tagName)) continue;
    const family = style(parent).fontFamily;
    for (const character of node.data) {
      if (character <= "~" || /[\s\p{Cf}\p{Mn}]/u.test(character)) continue;
      const key = family + character;
      if (!known.has(key)) {
        const font = `20px ${family}`, picture = drawn(character, font);
        known.set(key, ["\u{10FFFE}", "\u0378", "\uE0F0"].some((missing) => picture === drawn(missing, font)));
      }
      if (known.get(key)) found.push(`no glyph for U+${character.codePointAt(0).toString(16)} in ${family}`);
    }
  }
  const fonts = [...frame.contentDocument.fonts];
  for (const font of fonts) if (font.status === "error") found.push(`font ${font.family} does not load`);
  const loaded = fonts.some((font) => font.family.includes("Formulas") && font.status === "loaded");
  if (frame.contentDocument.querySelector("math") && !loaded) found.push("the font of the formulas is not used");
  return [...new Set(found)];
}

function channels(colour) {
  const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
  return [r, g, b, a];
}

function luminance([r, g, b]) {
  const linear = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

function over([r, g, b, a], below) {
  return [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
}

function background(element) {
  if (!element) return [255, 255, 255];
  const own = channels(style(element).backgroundColor);
  return own[3] === 1 ? own.slice(0, 3) : over(own, background(element.parentElement));
}

function contrast() {
  const found = [];
  for (const element of frame.contentDocument.querySelectorAll("article *")) {
    const text = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!text || element.matches(".headerlink, .md-annotation *, nav *") || !element.getBoundingClientRect().width) continue;
    const below = background(element), above = over(channels(style(element).color), below);
    const [dark, light] = [luminance(below), luminance(above)].sort((x, y) => x - y);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < 4) found.push(`contrast ${ratio.toFixed(1)}: ${named(element)}`);
  }
  return found;
}

async function look(path, widths) {
  const report = [], note = (what, found) => found.forEach((text) => report.push(`${what}: ${text}`));
  await open(path);
  note("text", glyphs());
  for (const width of widths) {
    frame.style.width = `${width}px`;
    for (const details of frame.contentDocument.querySelectorAll("details")) details.open = false;
    await next();
    note(`${width} pixels`, screens(path, width));
    for (const details of frame.contentDocument.querySelectorAll("details")) details.open = true;
    await next();
    note(`${width} pixels`, [...fits(width), ...pictures()]);
  }
  for (const scheme of ["default", "slate"]) {
    frame.contentDocument.body.setAttribute("data-md-color-scheme", scheme);
    await next();
    note(scheme === "slate" ? "dark" : "light", contrast());
  }
  return report;
}

(async () => {
  const reports = {};
  try {
    for (const path of PAGES) reports[path] = await look(path, WIDTHS);
  } catch (error) {
    reports.error = [String(error.stack)];
  }
  await fetch("/report", { method: "POST", body: JSON.stringify(reports) });
})();
