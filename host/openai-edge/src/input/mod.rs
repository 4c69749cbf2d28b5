//! What a request says, for every dialect here: `parameters` are honoured, refused or not looked at, and a
//! `conversation` is put together out of `content` and `images`. `functions` of the client and the
//! `allowed_tools`; `rules`: what the replies have to keep to. `approvals`: answers to calls that wait.
//! `compaction`: what stands for a conversation in fewer words. `metadata`: what a client notes beside one.

pub(super) mod allowed_tools;
pub(super) mod approvals;
pub(super) mod compaction;
pub(super) mod content;
pub(super) mod conversation;
pub(super) mod functions;
pub(super) mod images;
pub(super) mod metadata;
pub(super) mod parameters;
pub(super) mod rules;

#[cfg(test)]
use http_edge::variant_b::error::Problem;

/// Checks what a request is refused for, and where.
#[cfg(test)]
#[track_caller]
pub(crate) fn check_refused<T>(read: Result<T, Problem>, code: &str, param: &str) {
    let error = &read.err().unwrap().body()["error"];
    assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some(code), Some(param)), "{error}");
}
