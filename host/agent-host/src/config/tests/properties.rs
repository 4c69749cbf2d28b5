//! What holds whatever the variables hold.

use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

/// What no message may contain. Long enough not to stand anywhere by chance.
const SECRET: &str = "hunter2correcthorse";

/// What `any::<String>()` draws its texts from.
const ANY: &str = "\\PC*";

/// Texts of that pattern, which is read once: drawing from a pattern itself reads it for every text.
fn text(pattern: &str) -> impl Strategy<Value = String> + use<> {
    proptest::string::string_regex(pattern).expect("a pattern")
}

/// Anything: bytes, text, and text that is nearly right.
fn value() -> impl Strategy<Value = OsString> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(OsString::from_vec),
        text(ANY).prop_map(OsString::from),
        text("[a-z]{0,12}(://)?[a-z0-9:@/.#?%\\[\\]-]{0,30}").prop_map(OsString::from),
        text("[-+ ]?(0x)?[0-9]{0,25}(\\.[0-9]{0,3})?(e[0-9]{1,4})?").prop_map(OsString::from),
        text("(a|b|both|production|demo/|gpt|on|redis://|sqlite://)").prop_map(OsString::from),
    ]
}

/// The secret within anything.
fn secret() -> impl Strategy<Value = OsString> {
    (text(ANY), text("[a-z]{1,9}://[^a-z]{0,3}|[a-z]{0,9}:?"), text(ANY)).prop_flat_map(
        |(before, scheme, after)| {
            prop_oneof![
                Just(format!("{before}{SECRET}{after}")),
                Just(format!("{scheme}{SECRET}{after}")),
                Just(format!("{scheme}user:{SECRET}@host/{after}")),
                Just(SECRET.to_owned()),
            ]
            .prop_map(OsString::from)
        },
    )
}

proptest! {
    #[test]
    fn no_value_makes_it_panic_and_no_secret_is_shown(
        plain in proptest::collection::vec(proptest::option::of(value()), all_settings::all().count()),
        secrets in proptest::collection::vec(secret(), all_settings::all().count()),
    ) {
        let mut map = Map::new();
        for (variable, (plain, secret)) in all_settings::all().zip(plain.into_iter().zip(secrets)) {
            if variable.kind.is_hidden() {
                map.insert(variable.name.to_owned(), secret);
            } else if let Some(plain) = plain {
                map.insert(variable.name.to_owned(), plain);
            }
        }
        let said = match Config::from_vars(&map) {
            Ok(config) => format!("{config:?}"),
            Err(problems) => format!("{problems}\n{problems:?}"),
        };
        prop_assert!(!said.contains(SECRET), "{}", said);
    }

    #[test]
    fn every_problem_takes_one_line(values in proptest::collection::vec(value(), all_settings::all().count())) {
        let names = all_settings::all().map(|variable| variable.name.to_owned());
        let map: Map = names.zip(values).collect();
        if let Err(problems) = Config::from_vars(&map) {
            prop_assert_eq!(problems.to_string().lines().count(), problems.all().len() + 1);
        }
    }
}
