//! What calls cost: samples in, a row for each tool out, held against budgets.

use std::collections::BTreeMap;

use serde::Serialize;

/// What one call used up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Making the instance and running it.
    pub milliseconds: f64,
    /// Most bytes that its memories had together.
    pub memory_bytes: u64,
    /// Instructions, where they are counted.
    pub fuel: Option<u64>,
    pub output_bytes: u64,
}

/// What the calls of one tool cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub tool: String,
    /// How many calls were counted.
    pub calls: usize,
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// The longest took this.
    pub most_ms: f64,
    /// The most memory of one.
    pub memory_bytes: u64,
    /// Half of them used no more instructions, where those are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The largest answer.
    pub output_bytes: u64,
    /// What the tool adds to every call of the model, in tokens.
    pub prompt_tokens: u64,
}

/// What a tool may cost at most.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    /// Half of its calls may take this long.
    pub p50_ms: Option<f64>,
    /// A call may have so much memory.
    pub memory_bytes: Option<u64>,
    /// The tool may add so many tokens to every call of the model.
    pub prompt_tokens: Option<u64>,
}

/// Adds up what calls cost.
#[derive(Debug, Default)]
pub struct Costs(BTreeMap<String, Vec<Sample>>);

impl Costs {
    /// A call ran.
    pub fn add(&mut self, tool: &str, sample: Sample) {
        self.0.entry(tool.to_owned()).or_default().push(sample);
    }

    /// Other calls ran too.
    pub fn extend(&mut self, others: Self) {
        for (tool, samples) in others.0 {
            self.0.entry(tool).or_default().extend(samples);
        }
    }

    /// A row for each of these tools, given with the tokens that they add.
    pub fn rows<'a>(&self, tools: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<Row> {
        tools.into_iter().map(|(tool, prompt_tokens)| self.row(tool, prompt_tokens)).collect()
    }

    fn row(&self, tool: &str, prompt_tokens: u64) -> Row {
        let samples = self.0.get(tool).map(Vec::as_slice).unwrap_or_default();
        let mut times: Vec<f64> = samples.iter().map(|sample| sample.milliseconds).collect();
        times.sort_by(f64::total_cmp);
        let mut fuels: Vec<u64> = samples.iter().filter_map(|sample| sample.fuel).collect();
        fuels.sort_unstable();
        Row {
            tool: tool.to_owned(),
            calls: samples.len(),
            p50_ms: middle(&times).unwrap_or_default(),
            most_ms: times.last().copied().unwrap_or_default(),
            memory_bytes: samples.iter().map(|sample| sample.memory_bytes).max().unwrap_or_default(),
            fuel: middle(&fuels),
            output_bytes: samples.iter().map(|sample| sample.output_bytes).max().unwrap_or_default(),
            prompt_tokens,
        }
    }
}

fn middle<T: Copy>(sorted: &[T]) -> Option<T> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

impl Row {
    /// What is beyond the budget, a sentence each. A budget of calls is not kept where no call was counted.
    pub fn beyond(&self, budget: &Budget) -> Vec<String> {
        let Self { tool, calls, p50_ms, memory_bytes, prompt_tokens, .. } = self;
        let mut beyond = vec![];
        let is_of_calls = budget.p50_ms.is_some() || budget.memory_bytes.is_some();
        if is_of_calls && *calls == 0 {
            beyond.push(format!("no call of {tool} succeeded, so its budget says nothing: add a case"));
        }
        if let Some(most) = budget.p50_ms.filter(|most| p50_ms > most) {
            beyond.push(format!(
                "{tool} takes {p50_ms:.3} ms in the middle, and may take {most} ms (--budget-ms)"
            ));
        }
        if let Some(most) = budget.memory_bytes.filter(|most| memory_bytes > most) {
            beyond.push(format!(
                "{tool} has {memory_bytes} bytes of memory at most, and may have {most} (--budget-memory)"
            ));
        }
        if let Some(most) = budget.prompt_tokens.filter(|most| prompt_tokens > most) {
            beyond.push(format!(
                "{tool} adds {prompt_tokens} tokens to every call of the model, and may add {most} (--budget-tokens): \
                 shorten its description and those of its arguments"
            ));
        }
        beyond
    }
}

pub fn table(rows: &[Row]) -> String {
    let has_fuel = rows.iter().any(|row| row.fuel.is_some());
    let mut cells = vec![
        vec!["tool", "calls", "p50 ms", "most ms", "memory MiB", "output bytes", "prompt tokens"]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    ];
    cells.extend(rows.iter().map(|row| {
        vec![
            row.tool.clone(),
            row.calls.to_string(),
            format!("{:.3}", row.p50_ms),
            format!("{:.3}", row.most_ms),
            format!("{:.2}", row.memory_bytes as f64 / f64::from(1 << 20)),
            row.output_bytes.to_string(),
            row.prompt_tokens.to_string(),
        ]
    }));
    if has_fuel {
        for (at, line) in cells.iter_mut().enumerate() {
            let fuel = at
                .checked_sub(1)
                .and_then(|at| rows.get(at))
                .map(|row| row.fuel.unwrap_or_default().to_string());
            line.push(fuel.unwrap_or_else(|| "fuel".to_owned()));
        }
    }
    let width = |column: usize| {
        cells
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let lines = cells.iter().map(|line| {
        let padded = line.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<width$}", width = width(column)),
            _ => format!("{cell:>width$}", width = width(column)),
        });
        padded.collect::<Vec<_>>().join("  ") + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let mut costs = Costs::default();
        for milliseconds in [3.0, 1.0, 2.0, 40.0] {
            let memory_bytes = 1 << 20;
            costs.add("add", Sample { milliseconds, memory_bytes, fuel: None, output_bytes: 1 });
        }
        costs.rows([("add", 90), ("never_called", 30)])
    }

    #[test]
    fn a_table_has_a_row_for_each_tool() {
        insta::assert_snapshot!(table(&rows()), @"
        tool          calls  p50 ms  most ms  memory MiB  output bytes  prompt tokens
        add               4   2.000   40.000        1.00             1             90
        never_called      0   0.000    0.000        0.00             0             30
        ");
    }

    #[test]
    fn what_is_beyond_a_budget_is_said_with_both_numbers() {
        let budget = Budget { p50_ms: Some(1.5), memory_bytes: Some(1000), prompt_tokens: Some(50) };
        let beyond = rows().iter().flat_map(|row| row.beyond(&budget)).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(beyond, @"
        add takes 2.000 ms in the middle, and may take 1.5 ms (--budget-ms)
        add has 1048576 bytes of memory at most, and may have 1000 (--budget-memory)
        add adds 90 tokens to every call of the model, and may add 50 (--budget-tokens): shorten its description and those of its arguments
        no call of never_called succeeded, so its budget says nothing: add a case
        ");
        let enough = Budget { p50_ms: Some(2.0), memory_bytes: Some(1 << 20), prompt_tokens: Some(90) };
        assert_eq!(rows()[0].beyond(&enough), Vec::<String>::new());
    }

    #[test]
    fn a_budget_of_calls_is_not_kept_without_one() {
        let rows = rows();
        let never_called = &rows[1];
        let of_time = Budget { p50_ms: Some(1e6), ..Budget::default() };
        let of_memory = Budget { memory_bytes: Some(u64::MAX), ..Budget::default() };
        for budget in [of_time, of_memory] {
            assert_eq!(never_called.beyond(&budget).len(), 1, "{budget:?}");
        }
        // What a tool adds to a prompt is known without a call.
        let of_tokens = Budget { prompt_tokens: Some(30), ..Budget::default() };
        assert!(never_called.beyond(&of_tokens).is_empty());
    }
}
