//! Clients of language-model providers.
