//! Which units a name may mean.

use num_rational::BigRational;
use strsim::levenshtein;

use crate::notation::{power_of_ten, power_of_two, read};
use crate::units::{PREFIXES, Prefix, Prefixes, QUANTITIES, Quantity, Unit};

/// A unit with its prefix.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// In full.
    pub(crate) name: String,
    pub(crate) quantity: &'static str,
    pub(crate) factor: BigRational,
    pub(crate) offset: BigRational,
    /// Whether its factor is exact.
    pub(crate) is_exact: bool,
}

/// All units of that name: those whose symbol it is as it is written or, without such, whose name it is in
/// any case and number. An error says what was meant perhaps.
pub(crate) fn find(written: &str) -> Result<Vec<Found>, String> {
    let symbol = plain(written);
    let by_symbol = search(|unit, prefix| is_symbol(unit, prefix, &symbol));
    if !by_symbol.is_empty() {
        return Ok(by_symbol);
    }
    let name = symbol.to_lowercase();
    let by_name = search(|unit, prefix| is_name(unit, prefix, &name));
    if !by_name.is_empty() {
        return Ok(by_name);
    }
    // `sq ft` and `cubic cm`.
    let powers = [("square ", '2'), ("cubic ", '3')];
    if let Some((unit, power)) =
        powers.iter().find_map(|(word, power)| Some((symbol.strip_prefix(word)?, power)))
    {
        let by_symbol = search(|own, prefix| is_symbol(own, prefix, &format!("{unit}{power}")));
        if !by_symbol.is_empty() {
            return Ok(by_symbol);
        }
    }
    // `KM` and `Kg`.
    let by_symbol = search(|unit, prefix| is_symbol(unit, prefix, &name));
    if !by_symbol.is_empty() {
        return Ok(by_symbol);
    }
    // `kgs` and `kms`.
    if let Some(one) = symbol.strip_suffix('s').filter(|one| one.len() > 1) {
        let by_symbol = search(|unit, prefix| is_symbol(unit, prefix, one));
        if !by_symbol.is_empty() {
            return Ok(by_symbol);
        }
    }
    let shown: String = written.chars().take(40).collect();
    // `kwh` is one unit, `mhz` two a billion times apart.
    match in_other_case(&symbol).as_slice() {
        [] => {}
        [one] => return Ok(search(|unit, prefix| is_symbol(unit, prefix, one))),
        several => {
            let several = several.join("` or `");
            return Err(format!("there is no unit `{shown}`: did you mean `{several}`?"));
        }
    }
    let quantities: Vec<_> = QUANTITIES.iter().map(|quantity| quantity.name).collect();
    Err(match nearest(&name) {
        Some(near) => format!("there is no unit `{shown}`: did you mean `{near}`?"),
        None => format!("there is no unit `{shown}`; there are units of {}", quantities.join(", ")),
    })
}

/// The symbols of a quantity, for a refusal.
pub(crate) fn symbols_of(quantity: &str) -> String {
    let units = QUANTITIES.iter().filter(|own| own.name == quantity).flat_map(|quantity| quantity.units);
    let symbols: Vec<_> = units.map(|unit| unit.others.first().copied().unwrap_or(unit.name)).collect();
    symbols.join(", ")
}

/// One way of writing each name.
fn plain(written: &str) -> String {
    let words = written.replace(['^', '·'], "").replace('²', "2").replace('³', "3").replace(" per ", "/");
    let words: Vec<_> = words
        .split_whitespace()
        .map(|word| match word {
            "sq" | "sq." => "square",
            "cu" | "cu." => "cubic",
            other => other,
        })
        .collect();
    words.join(" ").replace("metre", "meter").replace("litre", "liter").replace("degrees", "degree")
}

fn search(is_it: impl Fn(&Unit, Option<&Prefix>) -> bool) -> Vec<Found> {
    let units =
        QUANTITIES.iter().flat_map(|quantity| quantity.units.iter().map(move |unit| (quantity, unit)));
    units
        .filter_map(|(quantity, unit)| {
            if is_it(unit, None) {
                return Found::of(quantity, unit, None);
            }
            let prefix = PREFIXES
                .iter()
                .filter(|prefix| takes(unit, prefix))
                .find(|prefix| is_it(unit, Some(prefix)))?;
            Found::of(quantity, unit, Some(prefix))
        })
        .collect()
}

fn takes(unit: &Unit, prefix: &Prefix) -> bool {
    match unit.prefixes {
        Prefixes::None => false,
        Prefixes::Si => !prefix.is_binary,
        Prefixes::Data => prefix.power >= 3,
    }
}

fn is_symbol(unit: &Unit, prefix: Option<&Prefix>, written: &str) -> bool {
    let prefix = prefix.map_or("", |prefix| prefix.symbol);
    let rest = written.strip_prefix(prefix);
    // A name is a symbol too where there is no other, as in `bar` or `kbit`.
    rest.is_some_and(|rest| unit.others.contains(&rest) || unit.name == rest)
}

/// The symbols that differ from what is written in nothing but their case.
fn in_other_case(written: &str) -> Vec<String> {
    let units = QUANTITIES.iter().flat_map(|quantity| quantity.units);
    let symbols = units.flat_map(|unit| {
        unit.others.iter().chain([&unit.name]).flat_map(move |symbol| {
            // `K` is another way to write `k`.
            let prefixes = PREFIXES.iter().filter(move |prefix| takes(unit, prefix) && prefix.symbol != "K");
            std::iter::once("")
                .chain(prefixes.map(|prefix| prefix.symbol))
                .map(move |prefix| format!("{prefix}{symbol}"))
        })
    });
    let mut same: Vec<_> = symbols.filter(|symbol| symbol.eq_ignore_ascii_case(written)).collect();
    same.sort_unstable();
    same.dedup();
    same
}

fn is_name(unit: &Unit, prefix: Option<&Prefix>, written: &str) -> bool {
    let prefix = prefix.map_or("", |prefix| prefix.name);
    let Some(rest) = written.strip_prefix(prefix) else { return false };
    let is_it = |name: &str| {
        let name = name.to_lowercase();
        // Symbols of one letter differ by their case: M is not m.
        name.chars().count() > 1 && (name == rest || is_plural(rest, &name))
    };
    is_it(unit.name) || unit.others.iter().any(|other| is_it(other))
}

/// `miles`, `inches`, `miles/hour`, `tons of TNT`.
fn is_plural(written: &str, name: &str) -> bool {
    let end = name.find('/').or_else(|| name.find(" of ")).unwrap_or(name.len());
    let (head, tail) = name.split_at(end);
    let ending = written.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
    matches!(ending, Some("s" | "es"))
}

impl Found {
    fn of(quantity: &Quantity, unit: &Unit, prefix: Option<&Prefix>) -> Option<Self> {
        let size = prefix.map(|prefix| {
            if prefix.is_binary { power_of_two(prefix.power) } else { power_of_ten(prefix.power) }
        });
        let factor = read(unit.factor)?;
        Some(Self {
            name: format!("{}{}", prefix.map_or("", |prefix| prefix.name), unit.name),
            quantity: quantity.name,
            factor: match size {
                Some(size) => factor * size,
                None => factor,
            },
            offset: read(unit.offset)?,
            is_exact: !unit.factor.contains('π'),
        })
    }
}

/// The name that takes the fewest changes of a letter to make, if they are few.
fn nearest(written: &str) -> Option<String> {
    let written: String = written.chars().take(40).collect();
    let units = QUANTITIES.iter().flat_map(|quantity| quantity.units);
    let names = units.flat_map(|unit| {
        let own = std::iter::once(unit.name).chain(unit.others.iter().copied()).map(str::to_owned);
        let prefixes = PREFIXES.iter().filter(|prefix| takes(unit, prefix));
        own.chain(prefixes.map(|prefix| format!("{}{}", prefix.name, unit.name)))
    });
    let near = names.map(|name| (levenshtein(&written, &name.to_lowercase()), name));
    let (changes, name) = near.min_by_key(|(changes, _)| *changes)?;
    (changes <= written.chars().count() / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{QUANTITIES, find};
    use crate::notation::read;

    fn names(written: &str) -> Vec<String> {
        find(written).unwrap().into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn units_are_found_by_symbol_and_name() {
        for (written, name) in [
            ("km", "kilometer"),
            ("KM", "kilometer"),
            ("Kilometres", "kilometer"),
            ("mW", "milliwatt"),
            ("MW", "megawatt"),
            ("Mb", "megabit"),
            ("MB", "megabyte"),
            ("KB", "kilobyte"),
            ("GiB", "gibibyte"),
            ("gibibytes", "gibibyte"),
            ("Mbit/s", "megabit/second"),
            ("megabits per second", "megabit/second"),
            ("miles per hour", "mile/hour"),
            ("sq ft", "square foot"),
            ("m²", "square meter"),
            ("cubic metres", "cubic meter"),
            ("°C", "degree Celsius"),
            ("degrees fahrenheit", "degree Fahrenheit"),
            ("inches", "inch"),
            ("feet", "foot"),
            ("Feet", "foot"),
            ("kWh", "kilowatt-hour"),
            ("kcal", "kilocalorie"),
            ("hPa", "hectopascal"),
            ("mbar", "millibar"),
            ("µm", "micrometer"),
            ("days", "day"),
            ("Gallons", "US gallon"),
            ("UK gallons", "imperial gallon"),
            ("tons of TNT", "ton of TNT"),
            ("kwh", "kilowatt-hour"),
            ("KPA", "kilopascal"),
            ("kgs", "kilogram"),
        ] {
            assert!(names(written).contains(&name.to_owned()), "{written}: {:?}", names(written));
        }
        assert_eq!(names("oz"), ["ounce", "US fluid ounce"]);
        assert_eq!(names("MW"), ["megawatt"]);
    }

    #[test]
    fn what_is_no_unit_is_refused_with_the_nearest() {
        for (written, refusal) in [
            ("kilometr", "there is no unit `kilometr`: did you mean `kilometer`?"),
            ("galon", "there is no unit `galon`: did you mean `gallon`?"),
            ("mhz", "there is no unit `mhz`: did you mean `MHz` or `mHz`?"),
            ("gb", "there is no unit `gb`: did you mean `GB` or `Gb`?"),
            ("smoot", "there is no unit `smoot`; there are units of length, mass, temperature,"),
            ("", "there is no unit ``; there are units of"),
        ] {
            assert!(find(written).unwrap_err().starts_with(refusal), "{:?}", find(written));
        }
    }

    #[test]
    fn the_table_can_be_read_and_has_no_name_twice_in_a_quantity() {
        for quantity in &QUANTITIES {
            let mut seen = BTreeSet::new();
            for unit in quantity.units {
                assert!(read(unit.factor).is_some() && read(unit.offset).is_some(), "{}", unit.name);
                for name in unit.others.iter().chain([&unit.name]) {
                    assert!(seen.insert(*name), "{} has {name} twice", quantity.name);
                }
            }
        }
    }
}
