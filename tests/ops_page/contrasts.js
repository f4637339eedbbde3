// Texts on the page whose contrast with what is behind them is less than arguments[0], by the formula of WCAG.
const least = arguments[0];
const parts = (color) => (color.match(/[\d.]+/g) || []).map(Number);
const over = (top, below) => [0, 1, 2].map((i) => top[i] * (top[3] ?? 1) + below[i] * (1 - (top[3] ?? 1)));
function behind(element) {
  if (!element) return [255, 255, 255];
  const own = parts(getComputedStyle(element).backgroundColor);
  return own[3] === 0 ? behind(element.parentElement) : over(own, behind(element.parentElement));
}
function luminance(color) {
  const [r, g, b] = color.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const weak = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const text = walker.currentNode.textContent.trim();
  if (!text || !element.checkVisibility() || element.closest("noscript, .old")) continue;
  const back = behind(element);
  const front = over(parts(getComputedStyle(element).color), back);
  const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
  const contrast = (high + 0.05) / (low + 0.05);
  if (contrast < least) weak.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
}
return weak;
