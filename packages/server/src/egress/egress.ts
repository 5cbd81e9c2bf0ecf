import type { Socket } from 'node:net'

/** A POST to a receiver. */
export interface OutboundRequest {
  url: string
  headers: Record<string, string>
  body: string
}

export interface InboundAnswer {
  status: number
  /** Names in lower case; of several of one name the first. */
  headers: Record<string, string>
  /** At most 64 KiB of UTF-8; what came of it, for an answer that broke off after its status. */
  body: string
}

/** A host and port to speak another protocol with. */
export interface Destination {
  host: string
  port: number
  /** TLS from the first byte; the certificate must be one of the host. */
  tls: boolean
}

/** An answer to a GET, with the time for which the certificate of its server is valid; none over plain HTTP. */
export interface FetchedAnswer extends InboundAnswer {
  certificate: { from: number; until: number } | undefined
}

/** 'forbidden': the guard does not allow it; 'certificate': the server did not prove to be of its name. */
export type EgressFault = 'forbidden' | 'certificate' | 'unreachable'

/** Why nothing came back. The message is one plain sentence without the URL's secrets. */
export class EgressError extends Error {
  override name = 'EgressError'
  readonly kind: EgressFault

  constructor(message: string, kind: EgressFault = 'unreachable') {
    super(message)
    this.kind = kind
  }
}

/** The way out of the service. A redirect is an answer like any other, never followed. */
export interface Egress {
  /** Resolves with whatever the receiver answered. Rejects with EgressError. */
  post(request: OutboundRequest, signal?: AbortSignal): Promise<InboundAnswer>
  /** An open connection. Rejects with EgressError. */
  connect(destination: Destination, signal?: AbortSignal): Promise<Socket>
  /** Closes connections that are kept for the next request. */
  close(): void
}

/** A way out that also reads pages. */
export interface ReadingEgress extends Egress {
  /** On a new connection, so that the certificate is the one that is shown now. Rejects with EgressError. */
  get(request: Pick<OutboundRequest, 'url' | 'headers'>, signal?: AbortSignal): Promise<FetchedAnswer>
}
