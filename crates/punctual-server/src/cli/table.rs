//! Tables for people: columns of minimal width, numbers to the right.

/// A table that is printed when it is complete.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    name: &'static str,
    number: bool,
}

impl Table {
    /// Makes a table with these columns; a name that begins with `#` is a column of numbers.
    #[must_use]
    pub fn new(columns: &[&'static str]) -> Self {
        let column = |name: &&'static str| match name.strip_prefix('#') {
            Some(name) => Column { name, number: true },
            None => Column { name, number: false },
        };
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Returns the text, one line for the header and one for each row.
    #[must_use]
    pub fn text(&self) -> String {
        let heads: Vec<String> = self.columns.iter().map(|c| c.name.to_owned()).collect();
        let all = || std::iter::once(&heads).chain(&self.rows);
        let width =
            |n: usize| all().filter_map(|row| row.get(n)).map(|c| c.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        all().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells =
            row.iter().zip(&self.columns).zip(widths).map(|((cell, column), width)| match column.number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    }
}

/// Replaces control characters by spaces, so that they do not reach the terminal.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["topic", "#waiting", "note"]);
        table.row(["orders".into(), "7".into(), "fine".into()]);
        table.row(["e".into(), "100000".into(), String::new()]);
        let want = "topic   waiting  note\norders        7  fine\ne        100000\n";
        assert_eq!(table.text(), want);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = Table::new(&["error"]);
        table.row(["a\u{1b}[2Jb\nc".into()]);
        assert_eq!(table.text(), "error\na [2Jb c\n");
    }
}
