// Counts the tokens of the texts in a JSON list on the standard input, with vocabularies that lie in the package: a list of
// {"<name>": <count>}.

import { readFileSync } from 'node:fs';
import { Tiktoken } from 'js-tiktoken/lite';
import cl100k_base from 'js-tiktoken/ranks/cl100k_base';
import o200k_base from 'js-tiktoken/ranks/o200k_base';

const vocabularies = Object.entries({ cl100k_base, o200k_base }).map(([name, ranks]) => [name, new Tiktoken(ranks)]);
const count = (text) => Object.fromEntries(vocabularies.map(([name, vocabulary]) => [name, vocabulary.encode(text).length]));
console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(count)));
