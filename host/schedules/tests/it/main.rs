//! Each place under a thousand schedules: its sources keep their promises, and the planted bug is found.

#[cfg(test)]
mod places;
