//! CSV as a table: named columns and rows of values.

use agent_tool_sdk::Failure;

use crate::value::Value;

/// The most columns.
const MOST_COLUMNS: usize = 500;

/// The most cells. Each takes some forty bytes of the component's memory.
const MOST_CELLS: usize = 400_000;

/// What may stand between two cells.
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    /// Each as long as `columns`.
    pub(crate) rows: Vec<Vec<Value>>,
}

/// Reads CSV whose first line names the columns.
pub(crate) fn read(csv: &str) -> Result<Table, Failure> {
    let csv = csv.trim_start_matches('\u{feff}').trim_start_matches(['\n', '\r']);
    let delimiter = find_delimiter(csv);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(u8::try_from(delimiter).unwrap_or(b','))
        .flexible(true)
        .from_reader(csv.as_bytes());
    let header = reader.headers().map_err(|problem| refuse(&problem))?;
    let columns = name_columns(header.iter())?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|problem| refuse(&problem))?;
        if record.len() > columns.len() {
            let line = record.position().map_or(0, csv::Position::line);
            let (found, named) = (record.len(), columns.len());
            return Err(Failure::invalid_arguments(format!(
                "line {line} of `csv` has {found} cells, but the first line names {named} columns: put cells that \
                 contain `{delimiter}` into double quotes"
            )));
        }
        if (rows.len() + 1) * columns.len() > MOST_CELLS {
            return Err(Failure::invalid_arguments(format!(
                "`csv` has more than {MOST_CELLS} cells: pass fewer rows or columns"
            )));
        }
        let mut row: Vec<Value> = record.iter().map(Value::of_cell).collect();
        row.resize(columns.len(), Value::Null);
        rows.push(row);
    }
    Ok(Table { columns, rows })
}

fn refuse(problem: &csv::Error) -> Failure {
    Failure::invalid_arguments(format!("`csv` cannot be read: {problem}"))
}

/// What stands most often between the names of the columns.
fn find_delimiter(csv: &str) -> char {
    let first = csv.lines().next().unwrap_or_default();
    let mut is_quoted = false;
    let mut counts = [0_usize; DELIMITERS.len()];
    for one in first.chars() {
        is_quoted ^= one == '"';
        let found = DELIMITERS.iter().position(|delimiter| *delimiter == one && !is_quoted);
        if let Some(count) = found.and_then(|index| counts.get_mut(index)) {
            *count += 1;
        }
    }
    let counted = DELIMITERS.iter().zip(counts).rev();
    counted.max_by_key(|(_, count)| *count).map_or(',', |(delimiter, _)| *delimiter)
}

/// Gives every column a name of its own.
fn name_columns<'a>(header: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Failure> {
    let mut columns: Vec<String> = Vec::new();
    for (index, name) in header.enumerate() {
        if index == MOST_COLUMNS {
            return Err(Failure::invalid_arguments(format!("`csv` has more than {MOST_COLUMNS} columns")));
        }
        let name = name.trim();
        let number = index + 1;
        let name = if name.is_empty() { format!("column_{number}") } else { name.to_owned() };
        let is_taken = columns.iter().any(|other| other.eq_ignore_ascii_case(&name));
        columns.push(if is_taken { format!("{name}_{number}") } else { name });
    }
    if columns.is_empty() {
        return Err(Failure::invalid_arguments("`csv` is empty: its first line has to name the columns"));
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::read;

    fn shape(csv: &str) -> (Vec<String>, usize) {
        let table = read(csv).unwrap();
        (table.columns, table.rows.len())
    }

    #[test]
    fn delimiters_quotes_and_names_are_found() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for csv in
            ["a,b\n1,2\n", "a;b\r\n1,5;2\r\n", "\u{feff}a\tb\n\n1\t2", "a|b\n1", "\"a\", b\n\"x,\ny\",2"]
        {
            assert_eq!(shape(csv), (names(&["a", "b"]), 1), "{csv}");
        }
        assert_eq!(shape("\"a;b\",c\n"), (names(&["a;b", "c"]), 0));
        assert_eq!(shape("a,A,,a\n").0, names(&["a", "A_2", "column_3", "a_4"]));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (csv, reason) in [
            ("", "`csv` is empty: its first line has to name the columns"),
            (
                "a,b\n1,2\nx,y,z\n",
                "line 3 of `csv` has 3 cells, but the first line names 2 columns: put cells that contain `,` into double quotes",
            ),
            (&"a,".repeat(500), "`csv` has more than 500 columns"),
            (
                &format!("a\n{}", "1\n".repeat(400_001)),
                "`csv` has more than 400000 cells: pass fewer rows or columns",
            ),
        ] {
            assert_eq!(read(csv).unwrap_err().message, reason);
        }
    }
}
