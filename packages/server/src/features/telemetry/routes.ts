import { AppError } from '../../errors.ts'
import { clientAddress } from '../../http/actor.ts'
import { isJsonRequest, protobufMessage, protobufType } from '../../http/otlp.ts'
import type { Handler, Router } from '../../http/route.ts'
import type { Signal } from './records.ts'
import type { Telemetry } from './telemetry.ts'

const rejected = { traces: 'rejectedSpans', logs: 'rejectedLogRecords', metrics: 'rejectedDataPoints' } as const

export function mountTelemetry(router: Router, { telemetry }: { telemetry: Pick<Telemetry, 'take'> }): void {
  const take =
    (signal: Signal): Handler<'sendTraces' | 'sendLogs' | 'sendMetrics'> =>
    async ({ principal, request }, reply) => {
      const isJson = isJsonRequest(request)
      const { body } = request
      if (!Buffer.isBuffer(body)) {
        throw new AppError('unsupported_media_type', `The body must be ${protobufType} or application/json.`)
      }
      const named = new Set<string>()
      request.namedInstances = named
      const { count, reason } = await telemetry.take({
        ...{ signal, isJson, principal, named },
        body,
        address: clientAddress(request),
      })
      if (isJson) return count === 0 ? {} : { partialSuccess: { [rejected[signal]]: count, errorMessage: reason } }
      reply.type(protobufType)
      return (count === 0 ? Buffer.alloc(0) : protobufMessage({ 1: protobufMessage({ 1: count, 2: reason }) })) as never
    }
  router.handle('sendTraces', take('traces'))
  router.handle('sendLogs', take('logs'))
  router.handle('sendMetrics', take('metrics'))
}
