//! SQLite and PostgreSQL.
