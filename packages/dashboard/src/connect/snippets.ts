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

const javascript = ({ url, agent, key }: Given): Step[] => [
  { label: "In the agent's folder", text: `npm install ${url}/sdk.tgz\nexport WARDLINE_KEY=${key}` },
  {
    label: 'agent.mjs',
    text: `import { readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { createMonitor } from '@wardline/sdk'

const monitor = createMonitor({ url: '${url}', key: process.env.WARDLINE_KEY, instanceId: '${agent}' })
monitor.on('error', ({ message }) => console.error(message))
await monitor.start()
if (!monitor.health.lastContact) process.exit(1)
console.log('Connected as ${agent}. To stop it, suspend it in the dashboard.')

const read = monitor.guardTool('file-read', (path) => readFile(path, 'utf8'))
await read('agent.mjs')
if (await monitor.flush()) console.log('Event stored: a tool call, file-read.')

while (!monitor.suspended) await wait(500) // your agent works here
console.log('${agent} is suspended.')
await monitor.stop()`,
  },
  { label: 'Run (Node 20 or newer)', text: 'node agent.mjs' },
]

const python = ({ url, agent, key }: Given): Step[] => [
  { label: "In the agent's folder", text: `curl -O ${url}/wardline.py\nexport WARDLINE_KEY=${key}` },
  {
    label: 'agent.py',
    text: `import os
from wardline import Monitor

url, key = '${url}', os.environ['WARDLINE_KEY']
monitor = Monitor(url, key, '${agent}', '${agent}', state_file='${agent}.state')

@monitor.guard_tool('file-read')    # for async functions too
def read_file(path):
    with open(path) as file:
        return file.read()

with monitor:
    if monitor.health.seconds_since_contact is None:
        raise SystemExit(1)
    print('Connected as ${agent}. To stop it, suspend it in the dashboard.')
    read_file('agent.py')
    if monitor.flush():
        print('Event stored: a tool call, file-read.')
    monitor.wait_suspended()    # your agent works here`,
  },
  { label: 'Run (Python 3.9 or newer)', text: 'python3 agent.py' },
]

const curl = ({ url, agent, key }: Given): Step[] => [
  {
    label: 'In bash or zsh',
    text: `export WARDLINE_KEY=${key}
call() { curl -sS --fail-with-body -w '\\n' "${url}/api/$1" -H "X-Monitor-Key: $WARDLINE_KEY" -H 'Content-Type: application/json' "\${@:2}"; }`,
  },
  {
    label: 'Heartbeat (every 60 seconds), an event, the kill switch, and a check before opening a file',
    text: `call heartbeat -d '{"instance_id":"${agent}","name":"${agent}"}' && echo 'Connected as ${agent}. To stop it, suspend it in the dashboard.'
call events -d '{"severity":"info","source":"${agent}","event_type":"tool_call","description":"Read a file","instance_id":"${agent}","metadata":{"toolName":"file-read"}}' && echo 'Event stored: a tool call, file-read.'
call instances/${agent}/status
call honeypots/check/path -d '{"path":"../.aws/credentials","meta":{"tool":"file-read","cwd":"/srv/agent"}}'`,
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

/** The supervisor: no code in the program, and a stop that it cannot ignore. */
const any = ({ url, agent, key }: Given): Step[] => [
  installAgent(url),
  {
    label: 'Start your program with it, instead of python3 agent.py',
    text: `export WARDLINE_URL=${url} WARDLINE_KEY=${key}\nwardline-agent run --instance ${agent} -- python3 agent.py`,
  },
]

/** The port of the guide: the dashboard does not know which one the gateway has. */
const gatewayPort = 4748

const model = ({ url, agent, key }: Given): Step[] => {
  const gateway = `http://${new URL(url).hostname}:${gatewayPort}`
  return [
    {
      label: 'Where the service runs: the gateway and its providers',
      text: `cat > gateway.yaml <<'END'
upstreams:
  openai:    { kind: openai,    url: https://api.openai.com/v1, key_env: OPENAI_API_KEY }
  anthropic: { kind: anthropic, url: https://api.anthropic.com, key_env: ANTHROPIC_API_KEY }
  gemini:    { kind: gemini,    url: https://generativelanguage.googleapis.com, key_env: GEMINI_API_KEY }
END
WARDLINE_GATEWAY_PORT=${gatewayPort} WARDLINE_GATEWAY_FILE=gateway.yaml npm start`,
    },
    {
      label: 'Claude Code, Claude Agent SDK',
      text: `export ANTHROPIC_BASE_URL=${gateway}/anthropic ANTHROPIC_AUTH_TOKEN=${key}`,
    },
    {
      label: 'Codex: ~/.codex/config.toml, with the key in WARDLINE_KEY',
      text: `model_provider = "wardline"

[model_providers.wardline]
name = "Wardline"
base_url = "${gateway}/openai/v1"
env_key = "WARDLINE_KEY"
wire_api = "responses"
supports_websockets = false`,
    },
    {
      label: 'OpenAI SDKs, LangChain, AI SDK, LiteLLM',
      text: `export OPENAI_BASE_URL=${gateway}/openai/v1 OPENAI_API_KEY=${key}`,
    },
    { label: 'Anthropic SDKs', text: `export ANTHROPIC_BASE_URL=${gateway}/anthropic ANTHROPIC_API_KEY=${key}` },
    { label: 'Google Gen AI SDK', text: `export GOOGLE_GEMINI_BASE_URL=${gateway}/gemini GEMINI_API_KEY=${key}` },
    {
      label: 'Check: the models of a provider',
      text: `curl -H 'Authorization: Bearer ${key}' -H 'Wardline-Instance: ${agent}' ${gateway}/openai/v1/models`,
    },
  ]
}

/** OpenTelemetry: no code and no hook, but the agent's word, after the fact. */
const telemetry = ({ url, agent, key }: Given): Step[] => [
  {
    label: 'Any exporter: the environment of the agent (http/protobuf or http/json; gRPC is not served)',
    text: `export OTEL_EXPORTER_OTLP_ENDPOINT=${url}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer ${key}"
export OTEL_RESOURCE_ATTRIBUTES=wardline.instance.id=${agent}`,
  },
  {
    label: 'Claude Code, Claude Agent SDK: also',
    text: 'export CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_LOGS_EXPORTER=otlp OTEL_METRICS_EXPORTER=otlp',
  },
  {
    label: 'Codex: ~/.codex/config.toml, instead',
    text: `[otel]
exporter = { otlp-http = { endpoint = "${url}/v1/logs", protocol = "binary", headers = { Authorization = "Bearer ${key}" } } }`,
  },
  {
    label: 'AI SDK 7: in the program, with the environment above (npm install @ai-sdk/otel @opentelemetry/sdk-node)',
    text: `import { OpenTelemetry } from '@ai-sdk/otel'
import { NodeSDK } from '@opentelemetry/sdk-node'
import { registerTelemetry } from 'ai'

new NodeSDK().start()
registerTelemetry(new OpenTelemetry())`,
  },
]

interface Guide {
  name: string
  /** Runs as copied: the address, the agent and its key are filled in. */
  steps(given: Given): Step[]
  /** When the first heartbeat arrives. */
  hint: string
}

export const guides: Record<Tab, Guide> = {
  javascript: { name: 'JavaScript', steps: javascript, hint: 'Sent when the program starts.' },
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
  'gemini-cli': {
    name: 'Gemini CLI',
    steps: hook('gemini-cli'),
    hint: 'Sent with the first tool call of Gemini CLI.',
  },
  'copilot-cli': {
    name: 'Copilot CLI',
    steps: hook('copilot-cli'),
    hint: 'Sent with the first tool call of Copilot CLI.',
  },
  opencode: { name: 'OpenCode', steps: hook('opencode'), hint: 'Sent with the first tool call of OpenCode.' },
  openclaw: { name: 'OpenClaw', steps: hook('openclaw'), hint: 'Sent with the first tool call of OpenClaw.' },
  mcp: { name: 'MCP', steps: mcp, hint: 'Sent when the client starts the server.' },
  python: { name: 'Python', steps: python, hint: 'Sent when the program starts.' },
  any: { name: 'Any program', steps: any, hint: 'Sent when the supervisor starts the program.' },
  model: { name: 'Model gateway', steps: model, hint: 'Sent with the first call of a model.' },
  telemetry: { name: 'OpenTelemetry', steps: telemetry, hint: 'Sent with the first batch of the exporter.' },
  curl: { name: 'curl', steps: curl, hint: 'Sent by the first command.' },
}
