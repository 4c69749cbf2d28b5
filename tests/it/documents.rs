//! The documents: their sizes and sentences, links and anchors, what code cites of them, what is generated,
//! and what is shown.
//!
//! - `markdown`: reads pages. `pages`: sizes and sentences. `links`: links, and anchors that comments cite.
//! - `reference`: what `cargo xtask docs` writes. `shown`: console blocks, carried out against a service.
//! - `citations`: comments that speak of promises say where, and quote what is there.
//! - `conflicts`: what every 409 means is on its page. `kept`: no name that users had is gone.
//! - `voice`: counts of comments that the house wants less of. They may only fall.

mod citations;
mod conflicts;
mod kept;
mod links;
mod markdown;
mod pages;
mod reference;
mod shown;
mod voice;
