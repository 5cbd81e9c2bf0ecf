import { readFileSync } from 'node:fs'

// package.json lies two folders above, for the source as for the compiled code.
const packageJson = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

export const version: string = packageJson.version

export const help = `wardline-agent ${version}: kill switch, decoy checks and reports for coding agents and MCP servers

  wardline-agent install claude-code|codex|cursor [--project] [--fail-closed] [--dry-run] [--yes]
      Adds the hook to the settings of the coding agent: shows the change, asks, keeps a backup.
      --project      in this folder instead of your home
      --fail-closed  block what cannot be checked
      --dry-run      show the change only
      --yes          do not ask
  wardline-agent uninstall claude-code|codex|cursor [--project] [--dry-run] [--yes]
      Takes the hook out again.
  wardline-agent status [claude-code|codex|cursor|mcp-proxy]
      Says what the hook or proxy is set up with, and what the service says of it.
  wardline-agent hook [claude-code|codex|cursor] [--fail-closed]
      What the coding agent runs before each call of a tool.
  wardline-agent mcp-proxy [--fail-closed] -- <command> [arguments]
      Runs an MCP server that speaks over standard input and output, and guards the calls of its tools.

Settings, out of the environment or of ~/.config/wardline/agent.json (mode 0600):
  WARDLINE_URL          url          address of the service
  WARDLINE_KEY          key          a key of scope agent
  WARDLINE_KEY_FILE     keyFile      a file that holds it
  WARDLINE_INSTANCE_ID  instanceId   <agent>-<host>-<user> unless set
  WARDLINE_FAIL_MODE    failMode     open (unless set) or closed

Exit codes: 0 done (hook: the call may go on), 1 failed, 2 hook: the call is blocked, 3 status: suspended,
4 status: the service did not tell, 64 wrong command line, 78 wrong settings; mcp-proxy: that of the server,
126 or 127 when it cannot be started.
`
