//! Why a component is not granted what it needs. Each message says what is wrong and what to do about it.

/// Why a component is not granted what it needs.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The component imports HTTP and has no lines for it in the policy. Those of JavaScript import it unless
    /// they are told not to.
    #[error(
        "imports {import}, and the policy (TOOLS_POLICY) grants it no requests: the log has the lines to write. If it needs none, build it without: in JavaScript `jco componentize --disable http --disable fetch-event`, or disableFeatures: ['http', 'fetch-event'] with componentize-js"
    )]
    UngrantedHttp {
        /// One of the interfaces.
        import: &'static str,
    },
    /// A secret that the policy names has no value, or none that can be used.
    #[error(
        "cannot have the secrets that the policy gives it: set what their lines read (env or file); the log says which and why"
    )]
    Secrets,
    /// The component imports something else that only the policy gives.
    #[error(
        "imports {import}, and the policy (TOOLS_POLICY) does not grant it {what}: the log has the lines to write"
    )]
    NotGranted {
        import: &'static str,
        /// What it would be granted.
        what: &'static str,
    },
    /// The policy speaks of the component's name and means other builds.
    #[error(
        "is another build than those that the policy (TOOLS_POLICY) has lines for: the log has the lines for this one"
    )]
    OtherBuild,
    /// The policy lets the component keep values, and there is nowhere to keep them.
    #[error(
        "may keep values by its lines of the policy, and this service has no store for them: set DATABASE_URL or REDIS_URL, or take key-value out of the lines"
    )]
    NoKeyValueStore,
    /// The policy bounds the component's instructions, and nobody counts them.
    #[error(
        "has limits.fuel in its lines of the policy, and instructions are not counted: set TOOL_FUEL_METERING=on, or take it out"
    )]
    FuelNotCounted,
    #[error(
        "is an MCP server with other tools than those that its [[mcp]] in the policy (TOOLS_POLICY) is bound to: look at them, and name digest = \"{digest}\""
    )]
    OtherTools {
        /// `sha256:…` of its list of tools.
        digest: String,
    },
}
