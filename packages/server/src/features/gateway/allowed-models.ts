import { matchesPattern } from '@wardline/text'
import type { Upstream } from '../../config/gateway.ts'
import type { Principal } from '../../http/auth.ts'
import type { CallBody } from './call-body.ts'
import { Refusal } from './formats.ts'

interface Call {
  upstream: Pick<Upstream, 'name' | 'kind'>
  /** Below the name of the upstream. */
  path: string
  body: CallBody
}

const inPath = ({ upstream, path }: Call): string | undefined =>
  upstream.kind === 'gemini' ? /\/models\/([^:/]+)/.exec(path)?.[1] : undefined

/** Returns the model that a call names; undefined if it names none, or not without doubt. */
export const modelOf = (call: Call): string | undefined => inPath(call) ?? call.body.model

/**
 * Throws a Refusal if the key may not make this call. Lists of models may be read: clients do so when they start.
 * Models that a provider's tool calls by itself are not seen.
 */
export function assertMayCall({ models }: Pick<Principal, 'models'>, method: string | undefined, call: Call): void {
  if (models === undefined) return
  const { name } = call.upstream
  if (!models.some((pattern) => pattern.startsWith(`${name}/`))) {
    throw new Refusal(403, `This key may not use ${name}: it is limited to ${models.join(', ')}.`)
  }
  if (method === 'GET') return
  const { fault, namesFallbacks } = call.body
  if (fault !== undefined) throw new Refusal(400, `The body ${fault}, so the gateway cannot check the model.`)
  if (namesFallbacks) {
    throw new Refusal(
      403,
      'This key is limited to certain models, so a call may not have the fields models and fallbacks.',
    )
  }
  const model = modelOf(call)
  if (model === undefined)
    throw new Refusal(400, 'This key is limited to certain models, so a call must name its model.')
  // A provider of Gemini could take the model of the body instead.
  const second = call.body.model?.replace(/^models\//, '')
  for (const named of new Set([model, second ?? model])) {
    if (models.some((pattern) => matchesPattern(pattern, `${name}/${named}`))) continue
    const shown = named.slice(0, 100)
    throw new Refusal(403, `This key may not use the model ${shown} of ${name}: it is limited to ${models.join(', ')}.`)
  }
}
