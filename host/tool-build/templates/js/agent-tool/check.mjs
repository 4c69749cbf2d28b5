// Loads the bundle as a host would and says what a host would refuse.
try {
  const { tool } = await import('../.build/bundle.js');
  if (tool.describe().length === 0) throw new TypeError('there is no tool: call `defineTool` in tools.js');
} catch (error) {
  console.error(error instanceof TypeError ? `${error.message}\n${error.stack?.split('\n').slice(1, 4).join('\n')}` : error);
  process.exitCode = 1;
}
