//! Metrics in the text exposition format, read back. What is not in that format fails the test.

use std::collections::{BTreeMap, BTreeSet};

/// All samples of one scrape.
#[derive(Debug, Clone)]
pub struct Exposition {
    samples: Vec<Sample>,
    /// `# HELP` and `# TYPE` lines, without the two words.
    help: BTreeMap<String, String>,
    types: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Exposition {
    /// Reads a scrape.
    pub fn read(text: &str) -> Self {
        let mut this = Self { samples: Vec::new(), help: BTreeMap::new(), types: BTreeMap::new() };
        for line in text.lines() {
            let about = |prefix| line.strip_prefix(prefix).and_then(|rest: &str| rest.split_once(' '));
            if let Some((name, help)) = about("# HELP ") {
                this.help.insert(name.to_owned(), help.to_owned());
            } else if let Some((name, kind)) = about("# TYPE ") {
                this.types.insert(name.to_owned(), kind.to_owned());
            } else {
                let sample = Sample::read(line);
                this.samples.push(sample.unwrap_or_else(|| panic!("not a sample: {line:?}")));
            }
        }
        this
    }

    /// The sum of all samples of that name that have at least these labels; nothing when there is none.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |sample: &&Sample| {
            let has = |(label, value): &(&str, &str)| sample.labels.get(*label).is_some_and(|v| v == value);
            sample.name == name && labels.iter().all(has)
        };
        let values: Vec<_> = self.samples.iter().filter(fits).map(|sample| sample.value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// The names of the labels that samples of that name have.
    pub fn labels(&self, name: &str) -> BTreeSet<&str> {
        let samples = self.samples.iter().filter(|sample| sample.name == name);
        samples.flat_map(|sample| sample.labels.keys().map(String::as_str)).collect()
    }

    /// The values of one label over all samples of that name.
    pub fn values_of(&self, name: &str, label: &str) -> BTreeSet<&str> {
        let samples = self.samples.iter().filter(|sample| sample.name == name);
        samples.filter_map(|sample| sample.labels.get(label).map(String::as_str)).collect()
    }

    /// The names of all samples.
    pub fn names(&self) -> BTreeSet<&str> {
        self.samples.iter().map(|sample| sample.name.as_str()).collect()
    }

    /// `type: help` of a metric.
    pub fn describe(&self, metric: &str) -> String {
        let of = |texts: &BTreeMap<String, String>| texts.get(metric).cloned().unwrap_or_default();
        format!("{}: {}", of(&self.types), of(&self.help))
    }
}

impl Sample {
    /// `name{label="value",…} 1.5`. Our labels hold no escapes but `\"` and `\\`.
    fn read(line: &str) -> Option<Self> {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, mut rest) = series.split_once('{').unwrap_or((series, "}"));
        let mut labels = BTreeMap::new();
        while rest != "}" {
            let (label, quoted) = rest.split_once("=\"")?;
            let end = end_of_quote(quoted)?;
            let text = quoted[..end].replace("\\\"", "\"").replace("\\\\", "\\");
            labels.insert(label.to_owned(), text);
            rest = quoted[end + 1..].trim_start_matches(',');
        }
        Some(Self { name: name.to_owned(), labels, value: value.parse().ok()? })
    }
}

/// Where the first quote is that is not escaped.
fn end_of_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(place, character)| {
        let ends = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        ends.then_some(place)
    })
}
