/** Beginnings of keys and tokens, by the name of their format. */
const keyStarts: Readonly<Record<string, string>> = {
  wardline_key: 'wl_',
  api_key: '[spr]k[-_]',
  github_token: 'gh[a-z]_|github_pat_',
  gitlab_token: 'glpat-',
  slack_token: 'xox[a-z]-|xapp-',
  npm_token: 'npm_',
  huggingface_token: 'hf_',
  aws_key: 'A[KS]IA',
  google_key: 'AIza|ya29\\.',
  sendgrid_key: 'SG\\.',
  webhook_secret: 'whsec_',
  shopify_token: 'shp[a-z]{2}_',
  digitalocean_token: 'dop_v1_',
  pypi_token: 'pypi-',
  jwt: 'eyJ',
}
const keyNames = Object.entries(keyStarts).map(([name, start]) => [name, new RegExp(`^(?:${start})`)] as const)

/** Source of a pattern for what begins like a key or token, also within a word. */
export const keyTextSource = `(?:${Object.values(keyStarts).join('|')})[\\w.~+/=-]{8,}`
/** Source of a pattern for a word that begins like a key or token. */
export const keySource = `(?<![A-Za-z0-9])${keyTextSource}`

/** Returns the name of the format of a match of `keySource`. */
export const keyFormatOf = (key: string): string => keyNames.find(([, start]) => start.test(key))![0]

/** Source of a pattern for the first line of a private key. */
export const privateKeySource = '-----BEGIN [^-\\n]{0,60}PRIVATE KEY-----'
