import type { Socket } from 'node:net'

/** A request to a receiver. */
export interface OutboundRequest {
  url: string
  /** Default: POST. */
  method?: 'PATCH' | 'POST'
  headers: Record<string, string>
  body: string
}

export interface InboundAnswer {
  status: number
  /** Names in lower case; the first value of a repeated header. */
  headers: Record<string, string>
  /** At most 64 KiB of UTF-8; the received part if the response was interrupted. */
  body: string
}

/** Host and port for protocols other than HTTP. */
export interface Destination {
  host: string
  port: number
  /** TLS from the first byte; the certificate must be valid for the host. */
  tls: boolean
}

/** Response to a GET, with the validity of the server's certificate; undefined over plain HTTP. */
export interface FetchedAnswer extends InboundAnswer {
  certificate: { from: number; until: number } | undefined
}

/** 'forbidden': the destination is not allowed; 'certificate': the server's certificate is not valid for the host. */
export type EgressFault = 'forbidden' | 'certificate' | 'unreachable'

/** Why a request failed. The message is one sentence without the URL's secrets. */
export class EgressError extends Error {
  override name = 'EgressError'
  readonly kind: EgressFault

  constructor(message: string, kind: EgressFault = 'unreachable') {
    super(message)
    this.kind = kind
  }
}

/** Client for outbound connections. Redirects are returned and never followed. */
export interface Egress {
  /** Sends a POST, or the request's own method. Resolves with the response, whatever its status. Rejects with EgressError. */
  post(request: OutboundRequest, signal?: AbortSignal): Promise<InboundAnswer>
  /** Opens a connection. Rejects with EgressError. */
  connect(destination: Destination, signal?: AbortSignal): Promise<Socket>
  /** Closes idle connections of the pool. */
  close(): void
}

/** Client that can also send GET requests. */
export interface ReadingEgress extends Egress {
  /** Uses a new connection, so that the certificate is the current one. Rejects with EgressError. */
  get(request: Pick<OutboundRequest, 'url' | 'headers'>, signal?: AbortSignal): Promise<FetchedAnswer>
}
