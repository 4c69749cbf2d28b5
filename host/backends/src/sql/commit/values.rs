//! Rows as parameters of a statement of SQLite's, whose text is prepared once for each number of rows that
//! occurs.

/// How many rows a statement is given if they can be divided.
pub(super) const ROWS_AT_ONCE: usize = 16;

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Number(i64),
    Null,
}

/// Statements with their parameters, one after the other.
#[derive(Debug, Default)]
pub(super) struct Statements<'a> {
    pub(super) texts: Vec<String>,
    pub(super) values: Vec<Value<'a>>,
}

impl<'a> Statements<'a> {
    /// Adds statements over rows of values, [`ROWS_AT_ONCE`] each: the first column of a row is never null,
    /// but for rows that fill up the number to a power of two, so that few texts occur. `text` is given the
    /// rows as `(?, ?), (?, ?)`.
    pub(super) fn add<const N: usize>(&mut self, rows: &[[Value<'a>; N]], text: impl Fn(&str) -> String) {
        for rows in rows.chunks(ROWS_AT_ONCE) {
            self.bind(rows);
            let count = rows.len().next_power_of_two();
            self.values.resize(self.values.len() + (count - rows.len()) * N, Value::Null);
            self.texts.push(text(&parameters(count, N)));
        }
    }

    /// Adds values that stand before the rows of the next statement.
    pub(super) fn bind<const N: usize>(&mut self, rows: &[[Value<'a>; N]]) {
        self.values.extend(rows.iter().flatten());
    }

    /// The texts as one, a transaction where there are several.
    pub(super) fn text(&self) -> String {
        match &*self.texts {
            [one] => one.clone(),
            several => format!("BEGIN IMMEDIATE; {}; COMMIT", several.join("; ")),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// `(?, ?), (?, ?)`: the parameters of so many rows of so many columns.
fn parameters(rows: usize, columns: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(", "));
    vec![row.as_str(); rows].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_parameters_and_few_numbers_of_rows_occur() {
        let mut statements = Statements::default();
        let row = [Value::from(1), "a".into()];
        statements.add(&[row; 3], |rows| format!("VALUES {rows}"));
        assert_eq!(statements.text(), "VALUES (?, ?), (?, ?), (?, ?), (?, ?)");
        assert_eq!(statements.values.len(), 8);
        assert!(matches!(
            statements.values[4..],
            [Value::Number(1), Value::Text("a"), Value::Null, Value::Null]
        ));
        statements.add(&[row], |rows| format!("VALUES {rows}"));
        assert!(statements.text().starts_with("BEGIN IMMEDIATE; VALUES (?, ?), "));
        assert!(statements.text().ends_with("; VALUES (?, ?); COMMIT"));
    }
}
