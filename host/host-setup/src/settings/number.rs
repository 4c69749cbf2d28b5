//! Numbers as the Node stack reads them, so that a value that works there works here.

/// The whole number that JavaScript's `Number(text)` gives: surrounding space, `1e3`, `10.0` and `0x10` are
/// fine. Absent when it gives a fraction, something negative, something too large to be exact, or no number.
///
/// White space alone is no number either, although JavaScript says 0: a variable that holds a blank is a
/// mistake, and no variable of ours is meant to be 0 by mistake.
pub fn whole(text: &str) -> Option<u64> {
    /// Above this an `f64` skips numbers (JavaScript's `MAX_SAFE_INTEGER` is one less).
    const EXACT: f64 = 9_007_199_254_740_992.0;

    let number = parse(text.trim())?;
    // The cast is exact: the number is whole, not negative, and below 2^53.
    (number.fract() == 0.0 && (0.0..EXACT).contains(&number)).then_some(number as u64)
}

fn parse(text: &str) -> Option<f64> {
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            // Rust would take a sign here, JavaScript does not.
            let digits = Some(digits).filter(|digits| !digits.starts_with(['+', '-']))?;
            // Digits beyond 2^53 are rounded here, and [`whole`] refuses them.
            return u64::from_str_radix(digits, radix).ok().map(|number| number as f64);
        }
    }
    // Rust reads `inf` and `nan` too. JavaScript reads `Infinity`, which no range of ours allows.
    let decimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if decimal { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_javascript_reads_them() {
        for (text, number) in [
            ("0", 0),
            ("-0", 0),
            (" 10\n", 10),
            ("+7", 7),
            ("007", 7),
            ("5.", 5),
            ("10.0", 10),
            ("1e3", 1000),
            ("1E3", 1000),
            ("0x10", 16),
            ("0XfF", 255),
            ("0b101", 5),
            ("0o17", 15),
            ("0x100000000", 4_294_967_296),
            ("0x1fffffffffffff", 9_007_199_254_740_991),
            ("9007199254740991", 9_007_199_254_740_991),
        ] {
            assert_eq!(whole(text), Some(number), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        for text in [
            "",
            " ",
            "ten",
            "1_000",
            "1,000",
            "12.5",
            "-1",
            "NaN",
            "nan",
            "inf",
            "Infinity",
            "1e400",
            "0x",
            "0x-1",
            "0x+1",
            "0xg",
            "0x20000000000000",
            "0xffffffffffffffff",
            "0x10000000000000000",
            "1 2",
            "١",
            "10ms",
            "9007199254740992",
            ".",
            "e5",
            "--1",
        ] {
            assert_eq!(whole(text), None, "{text:?}");
        }
    }
}
