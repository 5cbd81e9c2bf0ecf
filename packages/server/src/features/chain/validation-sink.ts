import { canonicalJson } from '@wardline/contract'
import type { AttestationReader, AttestationSink, SubmittedRecord } from './attestation-sink.ts'
import { dataUriOf } from './data-uri.ts'
import { attestedBy, documentOf, hashOf, noDocument } from './documents.ts'
import { isSameHex } from './rpc.ts'
import { createValidationRegistry } from './validation-registry.ts'

/** The registry cannot delete a response, so a later one with this tag replaces it. */
const revokedTag = 'revoked'

/** The uid is the hash of the request. The URI of the report is only in the event of the response. */
export function createValidationReader(registry: string, wallet: string): AttestationReader {
  const validations = createValidationRegistry(registry, wallet)
  return {
    async state(rpc, { uid, hash, txHash }) {
      const latest = await validations.answer(rpc, uid)
      if (!latest) return undefined
      const isRevoked = latest.tag === revokedTag
      // Earlier versions wrote the attestation's hash, also into a revocation: the state suffices to see it.
      if (isSameHex(latest.responseHash, hash)) return { isRevoked, isBare: true }
      const receipt = await rpc.receipt(txHash, wallet, registry)
      if (!receipt?.ok) return undefined
      const found = validations.answered(receipt.logs).find(({ requestHash }) => isSameHex(requestHash, uid))
      if (!found || (!isRevoked && !isSameHex(latest.responseHash, found.responseHash))) return undefined
      const { uri, responseHash, response } = found
      const attested = attestedBy({ uri, hash: responseHash }, { request_hash: uid.toLowerCase(), response })
      return attested && isSameHex(attested.hash, hash) ? { isRevoked, isBare: attested.isBare } : undefined
    },
  }
}

/** Attestation sink that posts each score (100 is best) as a response to a request of the same wallet, with a report. */
export function createValidationSink(
  registry: string,
  { agentRegistry, agentId }: { agentRegistry: string; agentId: string },
  wallet: string,
): AttestationSink {
  const validations = createValidationRegistry(registry, wallet)
  const requestOf = ({ hash, period, tag }: SubmittedRecord) =>
    canonicalJson({ type: 'wardline.attestation-request.v1', agent_id: agentId, hash, period, tag })
  return {
    ...createValidationReader(registry, wallet),
    prepare(record) {
      const request = requestOf(record)
      const subject = hashOf(request)
      return { subject, ...validations.request(agentId, dataUriOf(request), subject) }
    },
    write(record) {
      const { score: response, tag } = record
      const requestHash = hashOf(requestOf(record))
      const report = {
        type: 'wardline.attestation-report.v1',
        agent_registry: agentRegistry,
        agent_id: agentId,
        request_hash: requestHash,
        response,
        self_attested: true,
      }
      const { uri, hash: responseHash } = documentOf(report, record)
      return validations.respond({ requestHash, response, responseHash, tag, uri })
    },
    uidOf: (logs, data) => validations.loggedResponse(data, logs)?.requestHash,
    revoke(uid) {
      const { uri, hash: responseHash } = noDocument
      return validations.respond({ requestHash: uid, response: 0, responseHash, tag: revokedTag, uri })
    },
  }
}
