//! Which models are asked, and what each of them needs.

use super::*;

#[test]
fn the_demo_model_is_refused_in_production() {
    for (environment, model, expected) in [
        ("development", "demo/any", &[][..]),
        ("test", "demo/any", &[]),
        ("production", "demo/any", &["LLM_MODEL"]),
        ("production", "gpt-5", &[]),
        ("sandbox", "demo/any", &["NODE_ENV"]),
    ] {
        check("a", &[("NODE_ENV", environment), ("LLM_MODEL", model)], expected);
    }
    let second = [("NODE_ENV", "production"), ("ALT_LLM_MODEL", "demo/any"), ("ALT_LLM_API_KEY", "k")];
    check("a", &second, &["ALT_LLM_MODEL"]);
}

#[test]
fn the_demo_model_needs_no_key() {
    let demo = BTreeMap::from([("LLM_MODEL", "demo/rules")]);
    let config = Config::from_vars(&demo).unwrap();
    assert_eq!(config.models.first.id.to_string(), "demo/rules");
    assert_eq!(faults(&BTreeMap::from([("LLM_MODEL", "openai/gpt-5")])), ["LLM_API_KEY"]);
}

#[test]
fn the_second_provider_is_whole_or_absent() {
    const KEY: (&str, &str) = ("ALT_LLM_API_KEY", "sk-2");
    const MODEL: (&str, &str) = ("ALT_LLM_MODEL", "claude-x");
    const BASE: (&str, &str) = ("ALT_LLM_BASE_URL", "http://localhost:1");
    for (set, expected) in [
        (&[][..], &[][..]),
        (&[KEY], &[]),
        (&[MODEL], &["ALT_LLM_API_KEY"]),
        (&[BASE], &["ALT_LLM_API_KEY", "ALT_LLM_MODEL"]),
        (&[KEY, MODEL], &[]),
        (&[KEY, BASE], &["ALT_LLM_MODEL"]),
        (&[MODEL, BASE], &["ALT_LLM_API_KEY"]),
        (&[KEY, MODEL, BASE], &[]),
        (&[("ALT_LLM_MODEL", "llama")], &["ALT_LLM_API_KEY", "ALT_LLM_MODEL"]),
    ] {
        check("a", set, expected);
    }
    let second = read("a", &[KEY, MODEL, BASE]).models.second.unwrap();
    assert_eq!(second.id.to_string(), "anthropic/claude-x");
    assert_eq!(second.api_key.expose(), "sk-2");
    assert_eq!(second.base_url.unwrap().as_url().as_str(), "http://localhost:1/");
}
