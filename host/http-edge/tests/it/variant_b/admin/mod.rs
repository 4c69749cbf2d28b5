//! What the admin API promises, one file per promise. What is behind its port is a fake.

mod access;
mod actions;
mod audit_lines;
mod hostile;
mod operations;
mod preconditions;
mod show;
mod uploads;

/// Every route under `/admin/`, the methods that change something last.
const ROUTES: [(&str, &str); 14] = [
    ("GET", "/admin/tools"),
    ("GET", "/admin/tools/calculator"),
    ("GET", "/admin/tools/calculator/versions"),
    ("GET", "/admin/tools/calculator/diff"),
    ("GET", "/admin/tools/calculator/audit"),
    ("PUT", "/admin/tools/calculator"),
    ("POST", "/admin/tools/calculator/approve"),
    ("POST", "/admin/tools/calculator/enable"),
    ("POST", "/admin/tools/calculator/disable"),
    ("POST", "/admin/tools/calculator/rollback"),
    ("POST", "/admin/tools/calculator/shadow"),
    ("POST", "/admin/tools/calculator/canary"),
    ("POST", "/admin/tools/calculator/promote"),
    ("DELETE", "/admin/tools/calculator"),
];

/// How many of the routes change nothing.
const READING: usize = 5;

/// A body that each of the routes takes.
fn body_of(method: &str) -> &'static str {
    if method == "PUT" { "\0asm" } else { "" }
}
