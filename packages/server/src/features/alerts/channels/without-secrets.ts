/** What a receiver answered, without what was confided to it: some repeat the request in their errors. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  secrets.filter((secret) => secret !== '').reduce((rest, secret) => rest.replaceAll(secret, '[secret]'), text)
