//! Which file of a crate takes names from which other one, and the circles among them.
//!
//! Files are read as tokens. A name counts for the file that defines it, through any number of re-exports; a
//! `pub use` by itself ties nothing, so that a `mod.rs` may show what its files define. What is behind
//! `#[cfg(test)]` and what stands in a `tests` or `testing` file is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module of a crate, by its path within it.
type ModulePath = Vec<String>;

/// What one file defines and mentions.
#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    defined: BTreeSet<String>,
    /// Names it gives to things of other modules, and what they are called there.
    imported: BTreeMap<String, ModulePath>,
    /// Modules all of whose names it takes over.
    globs: Vec<ModulePath>,
    /// Paths from the crate's root to the names it uses.
    mentioned: Vec<ModulePath>,
}

/// The files of a crate that take names from each other in a circle: each group is one.
pub(super) fn circles_below(source: &Path) -> Vec<BTreeSet<PathBuf>> {
    let modules = read_crate(source);
    assert!(!modules.is_empty(), "there is nothing below {}", source.display());
    let files: BTreeSet<_> = modules.values().map(|module| module.file.clone()).collect();
    let mut uses: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for module in modules.values() {
        let others = module.mentioned.iter().filter_map(|path| defining_file(&modules, path, 0));
        uses.entry(module.file.clone()).or_default().extend(others.filter(|file| *file != module.file));
    }
    let reach: BTreeMap<_, _> = files.iter().map(|file| (file.clone(), reachable(&uses, file))).collect();
    let mut circles = BTreeSet::new();
    for file in &files {
        let back = |other: &&PathBuf| reach.get(*other).is_some_and(|from| from.contains(file));
        let circle: BTreeSet<_> = reach[file].iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable(uses: &BTreeMap<PathBuf, BTreeSet<PathBuf>>, from: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(file) = open.pop() {
        for next in uses.get(&file).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    found
}

/// The file that defines what a path from the crate's root ends in.
fn defining_file(modules: &BTreeMap<ModulePath, Module>, path: &[String], depth: usize) -> Option<PathBuf> {
    // Re-exports of each other are not followed for ever.
    if depth > 16 {
        return None;
    }
    let mut inner = (0..=path.len()).rev();
    let length = inner.find(|length| modules.contains_key(&path[..*length]))?;
    let module = &modules[&path[..length]];
    let Some(name) = path.get(length) else { return Some(module.file.clone()) };
    if module.defined.contains(name) {
        return Some(module.file.clone());
    }
    if let Some(target) = module.imported.get(name) {
        let target: Vec<_> = target.iter().chain(&path[length + 1..]).cloned().collect();
        return defining_file(modules, &target, depth + 1);
    }
    module.globs.iter().find_map(|glob| {
        let inner = modules.get(glob).filter(|inner| inner.defined.contains(name))?;
        Some(inner.file.clone())
    })
}

fn read_crate(source: &Path) -> BTreeMap<ModulePath, Module> {
    let mut modules = BTreeMap::new();
    for file in super::sources_below(source) {
        let relative = file.strip_prefix(source).expect("it is below").with_extension("");
        let mut path: ModulePath = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            path.pop();
        }
        if path.iter().any(|part| matches!(part.as_str(), "tests" | "testing")) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a file that can be read");
        let tokens: TokenStream = text.parse().expect("a file that compiles");
        // A binary's root uses its library by the crate's name, which is not `crate`.
        let is_main = relative.ends_with("main");
        let module = Module { file, ..Module::default() };
        let module = Reader { path: path.clone(), module }.read(tokens);
        if !is_main {
            modules.insert(path, module);
        }
    }
    modules
}

struct Reader {
    path: ModulePath,
    module: Module,
}

impl Reader {
    fn read(mut self, tokens: TokenStream) -> Module {
        self.read_items(tokens, true);
        self.module
    }

    fn read_items(&mut self, tokens: TokenStream, is_file: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut index, mut is_public, mut is_test) = (0, false, false);
        while let Some(token) = tokens.get(index) {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    let attribute = tokens.get(index + 1).map(ToString::to_string).unwrap_or_default();
                    let attribute = attribute.replace(' ', "");
                    is_test |= attribute.starts_with("[cfg(")
                        && attribute.contains("test")
                        && !attribute.contains("not(");
                    index += 1;
                }
                TokenTree::Ident(word) if word == "pub" => is_public = true,
                TokenTree::Ident(word) if word == "use" => {
                    let end =
                        (index..tokens.len()).find(|end| is_mark(&tokens[*end], ';')).unwrap_or(tokens.len());
                    if !is_test {
                        self.read_use(&tokens[index + 1..end], Vec::new(), is_public, is_file);
                    }
                    (index, is_public, is_test) = (end, false, false);
                }
                TokenTree::Ident(word) if is_file && is_item(&word.to_string()) => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(index + 1) {
                        self.module.defined.insert(name.to_string());
                    }
                }
                TokenTree::Ident(word) if is_file && word == "macro_rules" => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(index + 2) {
                        self.module.defined.insert(name.to_string());
                    }
                }
                TokenTree::Ident(word) if word == "crate" || word == "super" || word == "self" => {
                    index = self.read_path(&tokens, index);
                }
                TokenTree::Group(group) => {
                    let is_body = group.delimiter() == Delimiter::Brace;
                    if !(is_test && is_body) {
                        self.read_items(group.stream(), false);
                    }
                    if is_body {
                        (is_public, is_test) = (false, false);
                    }
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => (is_public, is_test) = (false, false),
                _ => {}
            }
            index += 1;
        }
    }

    /// A path in the code, such as `crate::a::B` or `super::c`. Answers where it ends.
    fn read_path(&mut self, tokens: &[TokenTree], start: usize) -> usize {
        let (mut words, mut index) = (vec![tokens[start].to_string()], start);
        while is_double_colon(tokens, index + 1) {
            let Some(TokenTree::Ident(word)) = tokens.get(index + 3) else { break };
            words.push(word.to_string());
            index += 3;
        }
        if words.len() > 1
            && let Some(path) = self.absolute(&words)
        {
            self.module.mentioned.push(path);
        }
        index
    }

    /// One tree of a `use`.
    fn read_use(&mut self, tokens: &[TokenTree], mut words: Vec<String>, is_public: bool, is_file: bool) {
        let mut index = 0;
        let mut name = None;
        while let Some(token) = tokens.get(index) {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    name = tokens.get(index + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) => words.push(word.to_string()),
                TokenTree::Punct(mark) if mark.as_char() == '*' => {
                    if let Some(path) = self.absolute(&words) {
                        self.module.globs.push(path);
                    }
                    return;
                }
                TokenTree::Group(group) => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    // Behind the last comma there may be nothing.
                    for tree in inner.split(|token| is_mark(token, ',')).filter(|tree| !tree.is_empty()) {
                        self.read_use(tree, words.clone(), is_public, is_file);
                    }
                    return;
                }
                _ => {}
            }
            index += 1;
        }
        if words.last().is_some_and(|last| last == "self") {
            words.pop();
        }
        let Some(last) = words.last().cloned() else { return };
        let Some(path) = self.absolute(&words) else { return };
        if !is_public {
            self.module.mentioned.push(path.clone());
        }
        if is_file {
            self.module.imported.insert(name.unwrap_or(last), path);
        }
    }

    /// A path from the root of the crate; nothing when it leads to another one.
    fn absolute(&self, words: &[String]) -> Option<ModulePath> {
        let (first, rest) = words.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some(self.path.iter().chain(rest).cloned().collect()),
            "super" => {
                let ups = words.iter().take_while(|word| *word == "super").count();
                let kept = self.path.len().checked_sub(ups)?;
                Some(self.path[..kept].iter().chain(&words[ups..]).cloned().collect())
            }
            // A child module, or another crate: the former is found among the modules, the latter is not.
            _ => Some(self.path.iter().chain(words).cloned().collect()),
        }
    }
}

fn is_item(word: &str) -> bool {
    matches!(word, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union")
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_double_colon(tokens: &[TokenTree], index: usize) -> bool {
    [index, index + 1].iter().all(|place| tokens.get(*place).is_some_and(|token| is_mark(token, ':')))
}
