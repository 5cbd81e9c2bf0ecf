import type { DecoyPreset, KeyType } from '@wardline/contract'

/** Placeholders in the snippets of presets: for a key, and for a path quoted for a shell. */
const value = '{{value}}'
const path = '{{path}}'

interface KeyPlan {
  title: string
  place: string
  snippet: string
  note?: string
}

/** Use a variable name that no program reads: a decoy as its value would break the program. */
const envLine = (title: string, variable: string, place = '.env'): KeyPlan => ({
  title,
  place,
  snippet: `${variable}=${value}`,
})
const jsonField = (title: string, field: string): KeyPlan => ({
  title,
  place: 'config/production.json',
  snippet: `"${field}": "${value}"`,
})

const readByTools = 'Programs read this file: take a section or name in it that none of them uses.'

/** A plan for every kind of key, so that each can be planted by filling in an instance. */
const keyPlans: Record<KeyType, KeyPlan> = {
  openai: envLine('OpenAI key in .env', 'OPENAI_API_KEY_PROD'),
  aws: {
    title: 'AWS credentials file',
    place: '~/.aws/credentials',
    snippet: `[prod-admin]\n${value}`,
    note: readByTools,
  },
  github: jsonField('GitHub token in a config', 'githubToken'),
  ssh_private_key: {
    title: 'SSH private key',
    place: '~/.ssh/id_ed25519_deploy',
    snippet: value,
    note: 'This is the whole file. Do not name it like a key that ssh offers by itself, such as id_ed25519.',
  },
  postgres_url: envLine('Database address in a backup', 'DATABASE_URL', '.env.backup'),
  anthropic: envLine('Anthropic key in .env', 'ANTHROPIC_API_KEY_PROD'),
  stripe: envLine('Stripe key in .env', 'STRIPE_SECRET_KEY_LIVE'),
  npm: {
    title: 'npm token in an old .npmrc',
    place: '~/.npmrc.bak',
    snippet: `//registry.npmjs.org/:_authToken=${value}`,
  },
  gitlab: {
    title: 'GitLab token in old git credentials',
    place: '~/.git-credentials.bak',
    snippet: `https://deploy:${value}@gitlab.com`,
  },
  slack: jsonField('Slack token in a config', 'slackBotToken'),
  google: jsonField('Google key in a config', 'googleApiKey'),
  sendgrid: envLine('SendGrid key in .env', 'SENDGRID_API_KEY_PROD'),
  huggingface: envLine('Hugging Face token in .env', 'HF_WRITE_TOKEN'),
  deepseek: envLine('DeepSeek key in .env', 'DEEPSEEK_API_KEY_PROD'),
  twilio: { title: 'Twilio account in .env', place: '.env', snippet: value, note: readByTools },
  azure_client_secret: envLine('Azure client secret in .env', 'AZURE_CLIENT_SECRET_PROD'),
  azure_storage: envLine('Azure storage key in .env', 'AZURE_STORAGE_KEY_PROD'),
  jwt: jsonField('Service token in a config', 'serviceToken'),
  ethereum: envLine('Wallet key in .env', 'DEPLOYER_PRIVATE_KEY'),
  generic: envLine('API token in .env', 'INTERNAL_API_TOKEN'),
  url: {
    title: 'Link in a document',
    place: 'docs/runbook.md',
    snippet: `Recovery codes of the production account: ${value}`,
    note: 'Each fetch of the link is recorded. A name may follow it, such as /codes.csv. Needs WARDLINE_DECOY_PORT.',
  },
}

const pathPlans: [id: string, title: string, path: string, note?: string][] = [
  ['path-ssh', 'SSH key path', '~/.ssh/id_rsa_prod'],
  ['path-aws', 'AWS credentials path', '~/.aws/credentials_backup'],
  ['path-env', 'Secrets file of an application', '~/app/secrets/production.env'],
  ['path-passwords', 'Password store', '~/passwords.kdbx'],
  ['path-customers', 'Export of customers', '/srv/export/customers_2026.csv'],
  [
    'path-keys',
    'Any file of a folder',
    '~/.config/vault-keys/**',
    'Every file below the folder counts. Choose one that no backup and no search reads.',
  ],
]

const hasWildcard = (text: string) => /[*?]/.test(text)

/** Decoys that only need an instance filled in: keys of every kind, then paths. */
export const decoyPresets: readonly DecoyPreset[] = [
  ...(Object.entries(keyPlans) as [KeyType, KeyPlan][]).map(
    ([keyType, { title, place, snippet, note = null }]): DecoyPreset => ({
      id: `key-${keyType.replaceAll('_', '-')}`,
      title,
      type: 'api_key',
      keyType,
      label: title.includes(place) ? title : `${title}: ${place}`,
      place,
      snippet,
      note,
    }),
  ),
  ...pathPlans.map(
    ([id, title, decoyPath, note = null]): DecoyPreset => ({
      id,
      title,
      type: 'file_path',
      path: decoyPath,
      label: title,
      place: decoyPath,
      snippet: hasWildcard(decoyPath) ? '' : `touch ${path}`,
      note,
    }),
  ),
]
