import { canonicalJson } from '@wardline/contract'
import type { AttestationSink, SubmittedRecord } from './attestation-sink.ts'
import { dataUriOf } from './data-uri.ts'
import { isSameHex } from './rpc.ts'
import { createValidationRegistry } from './validation-registry.ts'
import { hashOf } from './verification-report.ts'

/** The registry cannot delete a response, so a later one with this tag replaces it. */
const revokedTag = 'revoked'

/**
 * Attestation sink that posts each score (100 is best) as a response to a request of the same wallet. The uid is the
 * hash of the request.
 */
export function createValidationSink(registry: string, agentId: string, wallet: string): AttestationSink {
  const validations = createValidationRegistry(registry, wallet)
  const requestOf = ({ hash, period, tag }: SubmittedRecord) =>
    canonicalJson({ type: 'wardline.attestation-request.v1', agent_id: agentId, hash, period, tag })
  return {
    prepare(record) {
      const request = requestOf(record)
      const subject = hashOf(request)
      return { subject, ...validations.request(agentId, dataUriOf(request), subject) }
    },
    write(record) {
      const { hash: responseHash, score: response, tag } = record
      return validations.respond({ requestHash: hashOf(requestOf(record)), response, responseHash, tag }, '')
    },
    uidOf: (logs, hash) => validations.answered(logs).find(({ responseHash }) => responseHash === hash)?.requestHash,
    revoke: ({ uid, hash }) =>
      validations.respond({ requestHash: uid, response: 0, responseHash: hash, tag: revokedTag }, ''),
    async state(rpc, { uid, hash }) {
      const found = await validations.answer(rpc, uid)
      if (!found || !isSameHex(found.responseHash, hash)) return undefined
      return found.tag === revokedTag ? 'revoked' : 'valid'
    },
  }
}
