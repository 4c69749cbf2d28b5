// Counts the tokens of the text on the standard input, with vocabularies that lie in the package: {"<name>": <count>}.

import { readFileSync } from 'node:fs';
import { Tiktoken } from 'js-tiktoken/lite';
import cl100k_base from 'js-tiktoken/ranks/cl100k_base';
import o200k_base from 'js-tiktoken/ranks/o200k_base';

const text = readFileSync(0, 'utf8');
const counts = Object.entries({ cl100k_base, o200k_base }).map(([name, ranks]) => [name, new Tiktoken(ranks).encode(text).length]);
console.log(JSON.stringify(Object.fromEntries(counts)));
