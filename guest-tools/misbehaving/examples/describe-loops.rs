//! A component whose `describe` never returns.

#[macro_use]
mod describing;

export_description! {
    fn {
        let mut turns = 0_u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }
}
