/** Explains why listening failed and which setting to change. */
export function listenFault(host: string, port: number, fault: NodeJS.ErrnoException, prefix = ''): Error {
  const [hostName, portName] = [`${prefix}HOST`, `${prefix}PORT`]
  const faults: Record<string, string> = {
    EADDRINUSE: `Port ${port} of ${host} is in use: stop the program that listens there, or set ${portName} to another port.`,
    EACCES: `This user may not listen on port ${port}: set ${portName} to 1024 or higher.`,
    EADDRNOTAVAIL: `${hostName} ${host} is not an address of this machine: set ${hostName} to one, such as 127.0.0.1 or 0.0.0.0.`,
    ENOTFOUND: `${hostName} ${host} cannot be resolved: set ${hostName} to an address of this machine, such as 127.0.0.1 or 0.0.0.0.`,
  }
  const message =
    faults[fault.code ?? ''] ??
    `${hostName} ${host}, ${portName} ${port}: the service cannot listen there (${fault.code}).`
  return new Error(message, { cause: fault })
}
