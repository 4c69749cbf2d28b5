//! Packages of the two programs, as `cargo xtask dist` makes them of those that are shipped: installed from
//! their files into clean places, they answer.

use acceptance::{agent_host, agent_tool, repository};
use tokio::process::Command;

#[tokio::test]
async fn a_wheel_an_npm_package_and_a_debian_package_are_installed_and_answer_with_a_tool_call() {
    let folder = tempfile::tempdir().unwrap();
    let xtask = agent_host().with_file_name("xtask");
    let mut command = Command::new(xtask);
    command.arg("packages").args([agent_host(), agent_tool()]).arg(folder.path()).args(["--fast", "--try"]);
    let output = command.current_dir(repository()).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for kind in [".whl", ".tgz", ".deb"] {
        let answered = format!("packages: {kind}: ");
        assert!(said.lines().any(|line| line.starts_with(&answered)), "{kind} was not tried: {said}");
    }
}
