//! Comma-separated values, for people who open them in a spreadsheet.
//!
//! A value that a spreadsheet would take for a formula (it begins with `=`, `+`, `-`, `@`, a tab or a
//! line end) is written behind an apostrophe, unless it is a plain number. Reading takes it as it is:
//! `,` or `;` between cells, `"` around what holds one of them, a header in the first row.

/// Rows that are read at once.
const ROWS_MAX: usize = 10_000;

/// One line of cells, with its end.
#[must_use]
pub fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| write(&cell)).collect();
    format!("{}\r\n", cells.join(","))
}

fn write(cell: &str) -> String {
    let risky = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let number = cell.parse::<f64>().is_ok_and(f64::is_finite) && !cell.starts_with('+');
    let safe = if risky && !number { format!("'{cell}") } else { cell.to_owned() };
    if safe.contains([',', ';', '"', '\r', '\n']) {
        format!("\"{}\"", safe.replace('"', "\"\""))
    } else {
        safe
    }
}

/// The rows behind the header, each cell with its column's name.
///
/// # Errors
/// A sentence that says what cannot be read, and where.
pub fn read(text: &str) -> Result<Vec<Vec<(String, String)>>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().next().unwrap_or_default();
    let separator = if first.contains(';') && !first.contains(',') { ';' } else { ',' };
    let mut rows = split(text, separator)?.into_iter().filter(|row| row.iter().any(|cell| !cell.is_empty()));
    let header = rows.next().ok_or("is empty: the first line names the columns, such as address,locale")?;
    if !header.iter().any(|name| name == "address") {
        return Err("has no column `address` in its first line".into());
    }
    let mut all = Vec::new();
    for row in rows {
        if row.len() > header.len() {
            return Err(format!("row {} has more cells than the first line has names", all.len() + 2));
        }
        if all.len() == ROWS_MAX {
            return Err(format!("has more than {ROWS_MAX} rows; send it in parts"));
        }
        all.push(header.iter().cloned().zip(row).collect());
    }
    Ok(all)
}

fn split(text: &str, separator: char) -> Result<Vec<Vec<String>>, String> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' if quoted => quoted = false,
            '"' if cell.trim().is_empty() => {
                cell.clear();
                quoted = true;
            }
            '\n' | '\r' if !quoted => {
                row.push(std::mem::take(&mut cell).trim().to_owned());
                rows.push(std::mem::take(&mut row));
            }
            c if c == separator && !quoted => row.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    if quoted {
        return Err(format!("has a quote that is never closed, near row {}", rows.len() + 1));
    }
    row.push(cell.trim().to_owned());
    rows.push(row);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_formula_is_made_harmless() {
        let table = [
            ("=1+1", "'=1+1"),
            ("+964 770", "'+964 770"),
            ("-5", "-5"),
            ("-5+cmd", "'-5+cmd"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\tx", "'\tx"),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("a,b", "\"a,b\""),
            ("two\nlines", "\"two\nlines\""),
            ("شكرا", "شكرا"),
        ];
        for (cell, want) in table {
            assert_eq!(write(cell), want, "{cell:?}");
        }
        assert_eq!(line(["a".to_owned(), "b;c".to_owned()]), "a,\"b;c\"\r\n");
    }

    #[test]
    fn a_pasted_list_is_read_with_its_header() {
        let rows =
            read("\u{feff}address,locale,wip\r\n+964 1, ar ,\"a \"\"b\"\"\"\r\n\r\n+964 2\r\n").unwrap();
        let cell = |row: usize, n: usize| (rows[row][n].0.as_str(), rows[row][n].1.as_str());
        assert_eq!((cell(0, 0), cell(0, 1)), (("address", "+964 1"), ("locale", "ar")));
        assert_eq!((cell(0, 2), rows.len(), rows[1].len()), (("wip", "a \"b\""), 2, 1));
        assert_eq!(read("address;wip\n1;2").unwrap()[0][1], ("wip".to_owned(), "2".to_owned()));
        for (text, want) in [
            ("", "is empty"),
            ("phone\n1", "no column `address`"),
            ("address\n1,2", "row 2 has more cells"),
            ("address\n\"1", "never closed"),
        ] {
            assert!(read(text).unwrap_err().contains(want), "{text:?}");
        }
    }
}
