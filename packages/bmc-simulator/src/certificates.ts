/**
 * X.509 certificates for HTTPS, self-signed or issued by such a one, with one key pair each. node:crypto makes the keys
 * but not certificates.
 */
import { X509Certificate, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { isIP } from "node:net";
import { AsnConvert, OctetString } from "@peculiar/asn1-schema";
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  BasicConstraints,
  Certificate,
  Extension,
  Extensions,
  GeneralName,
  Name,
  RelativeDistinguishedName,
  SubjectAlternativeName,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Validity,
  Version,
  id_ce_basicConstraints,
  id_ce_subjectAltName,
} from "@peculiar/asn1-x509";

export interface TlsCertificate {
  /** PEM. */
  readonly certificate: string;
  readonly key: string;
  /** SHA-256 of the certificate, as `AB:CD:…`. */
  readonly fingerprint256: string;
}

export interface CertificateRequest {
  /** Common name. */
  readonly name: string;
  /** Null: the certificate is its own CA. */
  readonly issuer: TlsCertificate | null;
  /** Host names and IP addresses it is valid for. */
  readonly hosts: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
}

const ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2";
const COMMON_NAME = "2.5.4.3";

export function makeCertificate({ name, issuer, hosts, notBefore, notAfter }: CertificateRequest): TlsCertificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = new AlgorithmIdentifier({ algorithm: ECDSA_WITH_SHA256 });
  const serial = randomBytes(16);
  // A serial number is positive and in its shortest form.
  serial[0] = 0x40 | (Number(serial[0]) & 0x3f);
  const subject = commonName(name);
  const signed = new TBSCertificate({
    version: Version.v3,
    serialNumber: Uint8Array.from(serial).buffer,
    signature: algorithm,
    issuer: issuer === null ? subject : issuerName(issuer),
    subject,
    validity: new Validity({ notBefore, notAfter }),
    subjectPublicKeyInfo: AsnConvert.parse(publicKey.export({ type: "spki", format: "der" }), SubjectPublicKeyInfo),
    extensions: new Extensions([
      extension(id_ce_basicConstraints, new BasicConstraints({ cA: issuer === null })),
      extension(id_ce_subjectAltName, new SubjectAlternativeName(hosts.map(generalName))),
    ]),
  });
  const der = AsnConvert.serialize(
    new Certificate({
      tbsCertificate: signed,
      signatureAlgorithm: algorithm,
      signatureValue: Uint8Array.from(
        sign("sha256", Buffer.from(AsnConvert.serialize(signed)), issuer?.key ?? privateKey),
      ).buffer,
    }),
  );
  const x509 = new X509Certificate(Buffer.from(der));
  return {
    certificate: x509.toString(),
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    fingerprint256: x509.fingerprint256,
  };
}

function issuerName({ certificate }: TlsCertificate): Name {
  return AsnConvert.parse(new X509Certificate(certificate).raw, Certificate).tbsCertificate.subject;
}

function commonName(text: string): Name {
  const value = new AttributeValue({ utf8String: text });
  return new Name([new RelativeDistinguishedName([new AttributeTypeAndValue({ type: COMMON_NAME, value })])]);
}

function extension(id: string, value: BasicConstraints | SubjectAlternativeName): Extension {
  return new Extension({ extnID: id, critical: false, extnValue: new OctetString(AsnConvert.serialize(value)) });
}

function generalName(host: string): GeneralName {
  return isIP(host) === 0 ? new GeneralName({ dNSName: host }) : new GeneralName({ iPAddress: host });
}
