//! Components, what they say of themselves, and what an operator writes about them.

use std::sync::LazyLock;

use tool_host::testing;
use tool_policy::signature::{Signed, SignerKey, SigningKey, verify};
use tool_policy::{file, render};

use super::parts;

/// A key of these tests.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----";

/// A policy is read as what its rendered text means.
pub(crate) fn policy(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match file::parse(&text) {
        Ok(policy) => {
            let grants = policy.entries().iter().map(|entry| &***entry);
            let written = render::policy(grants, policy.rolls_back_on_traps());
            let again = file::parse(&written);
            assert!(again.is_ok(), "what is rendered is read: {:?}\n{written}", again.err());
            let digest = again.map(|again| again.digest().to_owned()).unwrap_or_default();
            assert_eq!(digest, policy.digest(), "{written}");
        }
        Err(problems) => assert!(!problems.to_string().is_empty(), "a refusal says why"),
    }
}

/// A key, a signature and what it is of: none holds but the one that was made for just that.
pub(crate) fn signature(input: &[u8]) {
    static OWN: LazyLock<Option<SigningKey>> = LazyLock::new(|| SigningKey::from_pem(KEY).ok());
    let [key, name, component, signature] = parts(input);
    let (key, name) = (String::from_utf8_lossy(key), String::from_utf8_lossy(name));
    if let Some(parsed) = SignerKey::parse(&key) {
        assert_eq!(SignerKey::parse(&parsed.to_string()), Some(parsed), "it is read back as it was");
    }
    drop(SigningKey::from_pem(&key));
    let Some(own) = OWN.as_ref() else { return assert!(OWN.is_some(), "the key of these tests is read") };
    let signed = Signed { name: &name, component, manifest: &[] };
    let trusted = [own.public()];
    let made = own.sign(&signed);
    assert!(verify(&signed, &made, &trusted).is_ok(), "its own signature holds");
    assert_eq!(verify(&signed, signature, &trusted).is_ok(), signature == made);
    let other = Signed { name: "another", component, manifest: &[] };
    assert!(name == "another" || verify(&other, &made, &trusted).is_err(), "of another name it does not");
}

/// What a component says of itself before it is compiled.
pub(crate) fn contract(input: &[u8]) {
    testing::inspect(input);
}

/// The types of a component's functions, when it can be compiled at all.
pub(crate) fn wit_types(input: &[u8]) {
    testing::read_types(input);
}

/// Arguments of functions of each kind of type.
pub(crate) fn typed_arguments(input: &[u8]) {
    testing::encode_arguments(input);
}

/// Name, description, schemas and hints of a tool, arguments and output of a call of it.
pub(crate) fn definition(input: &[u8]) {
    let [name, description, schema, output, hints, arguments] = parts(input).map(String::from_utf8_lossy);
    let hints = hints.lines().filter_map(|line| line.split_once('='));
    testing::define(testing::Described {
        name: &name,
        description: &description,
        input_schema: &schema,
        output_schema: (!output.is_empty()).then_some(&*output),
        hints: hints.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        arguments: &arguments,
    });
}
