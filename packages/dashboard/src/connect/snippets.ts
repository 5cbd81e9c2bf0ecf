import type { Tab } from './search.ts'

interface Given {
  /** Address at which this browser reaches the service. */
  url: string
  /** An instance id. */
  agent: string
  key: string
}

interface Step {
  label: string
  text: string
}

const typescript = ({ url, agent, key }: Given): Step[] => [
  { label: "In the agent's folder", text: `npm install ${url}/sdk.tgz\nexport WARDLINE_KEY=${key}` },
  {
    label: 'agent.mts',
    text: [
      "import { readFile } from 'node:fs/promises'",
      "import { createMonitor } from '@wardline/sdk'",
      '',
      `const monitor = createMonitor({ url: '${url}', key: process.env.WARDLINE_KEY!, instanceId: '${agent}' })`,
      'await monitor.start()',
      "const read = monitor.guardTool('file-read', (path: string) => readFile(path, 'utf8'))",
    ].join('\n'),
  },
  { label: 'Run (Node 24 runs TypeScript directly)', text: 'node agent.mts' },
]

const python = ({ url, agent, key }: Given): Step[] => [
  { label: "In the agent's folder", text: `curl -O ${url}/wardline.py\nexport WARDLINE_KEY=${key}` },
  {
    label: 'agent.py',
    text: `import os
from wardline import Denied, Monitor

url, key = '${url}', os.environ['WARDLINE_KEY']
monitor = Monitor(url, key, '${agent}', 'Support bot', state_file='support-bot.state')

@monitor.guard_tool('file-read')    # for async functions too
def read_file(path):
    with open(path) as file:
        return file.read()

with monitor:
    print(read_file('wardline.py')[:40])`,
  },
  { label: 'Run', text: 'python3 agent.py' },
]

const curl = ({ url, agent, key }: Given): Step[] => [
  {
    label: 'In bash or zsh',
    text: `export WARDLINE_KEY=${key}
call() { curl -sS "${url}/api/$1" -H "X-Monitor-Key: $WARDLINE_KEY" -H 'Content-Type: application/json' "\${@:2}"; echo; }`,
  },
  {
    label: 'Heartbeat (every 60 seconds), kill switch, and a check before opening a file',
    text: `call heartbeat -d '{"instance_id":"${agent}","name":"Support bot","agent_type":"langgraph","version":"1.4.0","fail_mode":"closed","control_version":0}'
call instances/${agent}/status
call honeypots/check/path -d '{"path":"../.aws/credentials","meta":{"tool":"file-read","cwd":"/home/bot/work"}}'`,
  },
]

const installAgent = (url: string): Step => ({
  label: "On the agent's host",
  text: `npm install -g ${url}/sdk.tgz`,
})

const hook =
  (tool: Tab) =>
  ({ url, agent, key }: Given): Step[] => [
    installAgent(url),
    {
      label: 'Settings, readable only by you',
      text: `mkdir -p ~/.config/wardline
(umask 077; cat > ~/.config/wardline/agent.json) <<'END'
{ "url": "${url}", "key": "${key}", "instanceId": "${agent}", "failMode": "open" }
END`,
    },
    {
      label: 'Install the hook (checks the key, shows the change, asks first, keeps a backup)',
      text: `wardline-agent install ${tool}`,
    },
  ]

const mcp = ({ url, agent, key }: Given): Step[] => [
  installAgent(url),
  {
    label: "In the MCP client's settings, wrapping a server's command",
    text: JSON.stringify(
      {
        mcpServers: {
          files: {
            command: 'wardline-agent',
            args: ['mcp-proxy', '--', 'npx', '-y', '@modelcontextprotocol/server-filesystem', '/srv/files'],
            env: { WARDLINE_URL: url, WARDLINE_KEY: key, WARDLINE_INSTANCE_ID: agent },
          },
        },
      },
      null,
      2,
    ),
  },
]

interface Guide {
  name: string
  /** The lines of the guides, with the address, the agent and its key filled in. */
  steps(given: Given): Step[]
  /** When the first heartbeat arrives. */
  hint: string
}

export const guides: Record<Tab, Guide> = {
  typescript: { name: 'TypeScript', steps: typescript, hint: 'Sent when the program starts.' },
  'claude-code': {
    name: 'Claude Code',
    steps: hook('claude-code'),
    hint: 'Sent with the first tool call of Claude Code.',
  },
  codex: {
    name: 'Codex',
    steps: hook('codex'),
    hint: 'Sent with the first tool call of Codex. First enter /hooks and trust the hook.',
  },
  cursor: { name: 'Cursor', steps: hook('cursor'), hint: 'Sent with the first tool call of Cursor.' },
  mcp: { name: 'MCP', steps: mcp, hint: 'Sent when the client starts the server.' },
  python: { name: 'Python', steps: python, hint: 'Sent when the program starts.' },
  curl: { name: 'curl', steps: curl, hint: 'Sent by the first command.' },
}
