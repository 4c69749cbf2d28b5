//! What is written from code says what the code says.

use std::fs;

use acceptance::{Service, repository};

async fn variables(format: &str) -> String {
    let ended = Service::command(&["variables", "--format", format]).run().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

#[tokio::test]
async fn the_readme_lists_every_variable_as_the_parser_knows_it() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let table = variables("markdown").await;
    assert!(table.lines().count() > 40, "{table}");
    assert!(readme.contains(&table), "README.md is behind: run `cargo xtask docs`");
}

#[tokio::test]
async fn the_example_of_an_environment_file_is_current() {
    let file = fs::read_to_string(repository().join(".env.example")).unwrap();
    assert_eq!(file, variables("env").await, ".env.example is behind: run `cargo xtask docs`");
}
