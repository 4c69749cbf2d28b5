//! A component without tools.

#[macro_use]
mod describing;

export_description! {}
