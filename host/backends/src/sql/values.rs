//! Rows as parameters of one statement of SQLite's. Each statement is a turn of the thread that SQLite runs on, and its text
//! is prepared once for each number of rows.

/// How many rows a statement is given if they can be divided. Statements of each number up to this one stay prepared.
pub(super) const ROWS_AT_ONCE: usize = 16;

/// `(?, ?), (?, ?)`: the parameters of so many rows of so many columns.
pub(super) fn values(rows: usize, columns: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(", "));
    vec![row.as_str(); rows].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_parameters() {
        assert_eq!(values(2, 3), "(?, ?, ?), (?, ?, ?)");
        assert_eq!(values(1, 1), "(?)");
    }
}
