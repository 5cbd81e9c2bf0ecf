/** Embeds a JSON document in a URI. In a transaction, it is readable for as long as the chain is. */
export const dataUriOf = (text: string): string =>
  `data:application/json;base64,${Buffer.from(text, 'utf8').toString('base64')}`
