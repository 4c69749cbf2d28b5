//! A component whose `describe` traps.
#![expect(clippy::panic, reason = "to panic is what it is for")]

#[macro_use]
mod describing;

export_description! {
    fn {
        panic!("this description panics on purpose")
    }
}
