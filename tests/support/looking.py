"""What is wrong with a page as it is laid out: judged in the browser, by boxes, colours and the text that is seen."""

from __future__ import annotations

# Gives texts, each beginning with the name of the card that it is about.
PROBLEMS = r"""
(width => {
  const found = [];
  const raws = /\b(undefined|None|null|NaN)\b|\[object|\*\*|```|\]\(|&[a-z]+;|\\[^\w\s]|<https?:/g;
  const numbers = text => (text.match(/[\d.]+/g) || []).map(Number);
  const over = (top, below) => {
    const alpha = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map(n => top[n] * alpha + below[n] * (1 - alpha));
  };
  const light = colour => {
    const [r, g, b] = colour.map(n => n / 255).map(n => n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const ground = element => {
    const layers = [];
    for (let one = element; one; one = one.parentElement)
      layers.unshift(numbers(getComputedStyle(one).backgroundColor));
    return layers.reduce((below, layer) => over(layer, below), dark ? [18, 18, 18] : [255, 255, 255]);
  };
  const contrast = element => {
    const below = ground(element);
    const [one, two] = [light(over(numbers(getComputedStyle(element).color), below)), light(below)];
    return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  };
  const cards = document.querySelectorAll('section');
  for (const card of cards.length ? cards : [document.body]) {
    const wrong = what => found.push(`${card.dataset.name || 'page'}: ${what}`);
    for (const one of [card, ...card.querySelectorAll('*')]) {
      const box = one.getBoundingClientRect();
      if (box.width && (box.right > width + 0.5 || box.left < -0.5)) wrong(`${one.tagName} is beyond the edge`);
      if (one.clientWidth && one.scrollWidth > one.clientWidth + 1) wrong(`${one.tagName} overflows`);
    }
    const texts = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode;
      if (!node.textContent.trim() || node.parentElement.closest('style')) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects())
        if (box.right > width + 0.5) { wrong(`text is beyond the edge: ${node.textContent.slice(0, 30)}`); break; }
      const has = contrast(node.parentElement);
      if (has < 4.5) wrong(`contrast ${has.toFixed(1)} of: ${node.textContent.slice(0, 30)}`);
    }
    const seen = card.innerText;
    for (const raw of seen.match(raws) || [])
      wrong(`${raw} is seen`);
    if (card.querySelector('.unasked, .mention, .spoiler')) wrong('a text became markup');
  }
  return found;
})
"""

# The text of each card, and how many links it has.
SEEN = """
(() => Object.fromEntries([...document.querySelectorAll('section')].map(card => [card.dataset.name, card])
  .concat(document.querySelector('section') ? [] : [['page', document.body]])
  .map(([name, card]) => [name, {
    text: card.innerText, links: [...card.querySelectorAll('a')].map(link => link.href)}])))()
"""

# How far below the top of its card a text begins, in pixels; null where it is not there.
DEPTH = """
((name, wanted) => {
  const card = [...document.querySelectorAll('section')].find(one => one.dataset.name === name) || document.body;
  const texts = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const at = texts.currentNode.textContent.indexOf(wanted);
    if (at < 0 || texts.currentNode.parentElement.closest('style')) continue;
    const range = document.createRange();
    range.setStart(texts.currentNode, at);
    range.setEnd(texts.currentNode, at + wanted.length);
    return range.getBoundingClientRect().bottom - card.getBoundingClientRect().top;
  }
  return null;
})
"""

# Whether each [text, place] is between two characters as people see them; places count as UTF-16 does.
BETWEEN_CHARACTERS = """
(pairs => {
  const segmenter = new Intl.Segmenter('und', {granularity: 'grapheme'});
  return pairs.map(([text, at]) =>
    at === text.length || segmenter.segment(text).containing(at).index === at);
})
"""
