// SPDX-License-Identifier: Apache-2.0
// Searches /docs: of the contents, what has every word stays, and Enter leads to the first. Also marks where the reader is.
'use strict';

const find = document.getElementById('find');
const contents = document.querySelector('#contents details');
const entries = [...document.querySelectorAll('#contents .group li')].map((item) => {
  const link = item.firstChild, section = document.getElementById(link.hash.slice(1));
  return { item, link, section, text: section.textContent.toLowerCase() };
});
const narrow = matchMedia('(max-width: 60rem)');

find.addEventListener('input', () => {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const { item, text } of entries) item.hidden = !words.every((word) => text.includes(word));
  for (const group of document.querySelectorAll('#contents .group'))
    group.hidden = !group.querySelector('li:not([hidden])');
  const n = entries.filter(({ item }) => !item.hidden).length;
  document.getElementById('found').textContent = words.length ? `${n} of ${entries.length} have it` : '';
  if (words.length) contents.open = true;
});
find.addEventListener('keydown', (event) => {
  const first = entries.find(({ item }) => !item.hidden);
  if (event.key === 'Enter' && first) first.link.click();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target === find) return;
  event.preventDefault();
  find.focus();
});
contents.addEventListener('click', (event) => {
  if (narrow.matches && event.target.closest('a')) contents.open = false;
});

/* Beside the text the contents have a bar of their own, which follows the reader. */
function reveal(link) {
  const frame = document.getElementById('contents'), box = frame.getBoundingClientRect(), at = link.getBoundingClientRect();
  if (!narrow.matches && (at.top < box.top || at.bottom > box.bottom)) frame.scrollTop += at.top - box.top - box.height / 2;
}

const shown = new Set();
const watcher = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) shown[isIntersecting ? 'add' : 'delete'](target);
  const here = entries.find(({ section }) => shown.has(section));
  for (const entry of entries) {
    if (entry === here && !entry.link.hasAttribute('aria-current')) reveal(entry.link);
    if (entry === here) entry.link.setAttribute('aria-current', 'true');
    else entry.link.removeAttribute('aria-current');
  }
}, { rootMargin: '-2% 0px -60% 0px' });
for (const { section } of entries) watcher.observe(section);

const fit = () => { contents.open = !narrow.matches; };
narrow.addEventListener('change', fit);
fit();
document.getElementById('search').hidden = false;
