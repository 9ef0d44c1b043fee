const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether the database accepts a text as a UUID: a query with any other text fails. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
