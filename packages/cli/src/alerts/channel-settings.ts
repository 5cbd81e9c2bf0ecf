import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { type ChannelType, channelKinds } from '@wardline/contract'
import { Failure } from '../exit.ts'

const standardInput = 0

/** Parses settings. Errors do not quote the text, which may contain secrets; those of JSON.parse would. */
export function parseSettings(text: string): object {
  let settings: unknown
  try {
    settings = JSON.parse(text)
  } catch {
    throw new Failure('The settings are not valid JSON.', 'configuration', 'configuration')
  }
  if (typeof settings === 'object' && settings !== null && !Array.isArray(settings)) return settings
  throw new Failure('The settings must be one JSON object, such as { "url": "…" }.', 'configuration', 'configuration')
}

/** Reads settings from a file, or from standard input for `-`. */
export function readSettings(file: string): object {
  let text: string
  try {
    text = readFileSync(file === '-' ? standardInput : file, 'utf8')
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code
    throw new Failure(`The settings file cannot be read (${reason}).`, 'configuration', 'configuration', { cause })
  }
  return parseSettings(text)
}

/** The part of a JSON Schema that a question needs. */
interface Field {
  type?: string
  enum?: readonly string[]
  description?: string
  writeOnly?: boolean
}

function questionOf(name: string, { description = '', ...field }: Field, isOptional: boolean): string {
  const hints = [
    description,
    ...(field.enum ? [`one of ${field.enum.join(', ')}`] : []),
    ...(field.type === 'boolean' ? ['yes or no'] : []),
    ...(field.type === 'array' ? ['several values separated by commas'] : []),
    ...(isOptional ? ['empty for none'] : []),
  ].filter((hint) => hint !== '')
  return `${name}${hints.length > 0 ? ` (${hints.join('; ')})` : ''}: `
}

/** An answer that is neither yes nor no stays a text, which the service refuses with the rule. */
function answerOf(text: string, { type }: Field): string | string[] | boolean {
  if (type === 'array') return text.split(',').map((part) => part.trim())
  if (type === 'boolean' && /^(y|yes|n|no|true|false)$/i.test(text)) return /^[yt]/i.test(text)
  return text
}

/**
 * Prompts for settings, field by field. Does not echo secrets. Throws Failure if the input ends before the last answer.
 */
export async function askSettings(
  type: ChannelType,
  { input, output }: { input: NodeJS.ReadableStream; output: NodeJS.WritableStream },
): Promise<object> {
  const { properties, required = [] } = channelKinds[type].settings as { properties: object; required?: string[] }
  let isHidden = false
  const shown = new Writable({
    write(chunk, _encoding, done) {
      if (!isHidden) output.write(chunk)
      done()
    },
  })
  const lines = createInterface({ input, output: shown, terminal: true, historySize: 0 })
  const ended = new Promise<never>((_resolve, reject) => {
    lines.once('close', () => reject(new Failure('Settings are missing.', 'usage', 'usage')))
  })
  // It also rejects after the last answer, when nothing awaits it.
  ended.catch(() => {})

  async function ask(name: string, field: Field): Promise<string> {
    const answer = lines.question(questionOf(name, field, !required.includes(name)))
    // Hide only after the question was printed.
    isHidden = field.writeOnly === true || name === 'url'
    const text = (await Promise.race([answer, ended])).trim()
    if (isHidden) output.write('\n')
    isHidden = false
    return text === '' && required.includes(name) ? ask(name, field) : text
  }

  const settings: Record<string, string | string[] | boolean> = {}
  try {
    for (const [name, field] of Object.entries(properties) as [string, Field][]) {
      const text = await ask(name, field)
      if (text !== '') settings[name] = answerOf(text, field)
    }
  } finally {
    lines.close()
  }
  return settings
}

/** Reads settings for a new channel from the file, else prompts for them. */
export async function settingsFor(type: ChannelType, file: string | undefined): Promise<object> {
  if (file !== undefined) return readSettings(file)
  if (process.stdin.isTTY) return askSettings(type, { input: process.stdin, output: process.stderr })
  throw new Failure(
    'Give the settings with --settings-file <file>, or - for standard input: they contain secrets, and other users of this machine can read command lines.',
    'usage',
    'usage',
  )
}
