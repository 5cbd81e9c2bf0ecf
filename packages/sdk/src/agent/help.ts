import { readFileSync } from 'node:fs'
import { codingTools } from '../coding-tools.ts'
import { keyCommand } from '../service.ts'

// package.json is two folders up, from the source as well as from the compiled code.
const packageJson = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

export const version: string = packageJson.version

const agents = codingTools.join('|')

export const help = `wardline-agent ${version}: kill switch, decoy checks and reports for coding agents and MCP servers

  wardline-agent install ${agents} [--project] [--fail-closed] [--dry-run] [--yes]
      Adds the hook to the settings of the coding agent: checks the key, shows the change, asks, keeps a backup.
      --project      in this folder instead of the home folder
      --fail-closed  block calls that cannot be checked
      --dry-run      show the change only
      --yes          do not ask
  wardline-agent uninstall ${agents} [--project] [--dry-run] [--yes]
      Restores the previous settings, or removes the hook from settings that changed since.
  wardline-agent status [${agents}|mcp-proxy]
      Shows the settings of the hook or proxy, and its state at the service.
  wardline-agent hook [${agents}] [--fail-closed]
      The command that the coding agent runs before each tool call.
  wardline-agent mcp-proxy [--fail-closed] -- <command> [arguments]
      Runs an MCP server over standard input and output, and guards its tool calls.
  wardline-agent run [options] -- <command> [arguments]
      Starts a program, and holds all its processes while the agent is suspended.
      --instance <id>        default: WARDLINE_INSTANCE_ID, else <program>-<host>-<user>
      --on-suspend freeze    stop the processes until the resume (default), or end them
      --end-after <seconds>  end those that have been frozen for so long
      --on-crash end         end the processes when the supervisor is killed (default), or leave them
      --user <name>          run the program as this user; needs root

Settings, from the environment or ~/.config/wardline/agent.json (mode 0600):
  WARDLINE_URL          url          address of the service
  WARDLINE_KEY          key          a key of scope agent
  WARDLINE_KEY_FILE     keyFile      a file with the key
  WARDLINE_INSTANCE_ID  instanceId   default: <agent>-<host>-<user>
  WARDLINE_PARENT                    id of the agent that started this one, with which it is suspended
  WARDLINE_FAIL_MODE    failMode     open or closed; default: open
  WARDLINE_RESULT_TEXT  resultText   on: report the text of results without secrets; default: off
  WARDLINE_ON_ASK       onAsk        deny, wait or ask: what happens when a policy asks a person; default: deny
  WARDLINE_PUBLIC_KEY   publicKey    keys that must sign the state of the kill switch and the policies

One key for all coding agents, created where the service runs:
  ${keyCommand('codex-')}

Exit codes: 0 done (hook: the call may go on), 1 failed, 2 hook: the call is blocked, 3 status: suspended,
4 status: state unknown, 64 usage error, 78 invalid settings; mcp-proxy and run: that of the command,
126 or 127 when it cannot be started.
`
