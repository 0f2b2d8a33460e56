"""Certificates of the tests, made with openssl, and servers that speak TLS with them."""
import os
import subprocess

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*words):
    done = subprocess.run(["openssl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {' '.join(words)}: {done.stderr}"


class Authority:
    """A CA with its files in a folder. Made anew, or what is there already."""

    def __init__(self, directory, name="ca"):
        self.directory = os.path.join(directory, "tls-" + name)
        self.ca = self.path("ca.pem")
        if not os.path.exists(self.ca):
            os.makedirs(self.directory, exist_ok=True)
            openssl("req", "-x509", *KEY, "-keyout", self.path("ca.key"), "-out", self.ca, "-days", "30",
                    "-subj", f"/CN=the CA {name} of the tests", "-addext", "basicConstraints=critical,CA:TRUE")

    def path(self, name):
        return os.path.join(self.directory, name)

    def issue(self, name, san="DNS:localhost,IP:127.0.0.1", days=30):
        """(certificate, key), the paths of two files. days -1: it expired yesterday."""
        cert, key, request, extensions = (self.path(name + end) for end in (".pem", ".key", ".csr", ".ext"))
        with open(extensions, "w", encoding="ascii") as stream:
            stream.write(f"subjectAltName={san}\nbasicConstraints=CA:FALSE\n")
        openssl("req", "-new", *KEY, "-keyout", key, "-out", request, "-subj", "/CN=" + name)
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.path("ca.key"), "-CAcreateserial",
                "-days", str(days), "-extfile", extensions, "-out", cert)
        os.chmod(key, 0o600)
        return cert, key

    def revoke(self, *names):
        """The path of a list of those that were revoked: these, and those of before."""
        config, database, crl = self.path("ca.cnf"), self.path("index"), self.path("crl.pem")
        if not os.path.exists(config):
            with open(config, "w", encoding="ascii") as stream:
                stream.write(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {database}\ndefault_md = sha256\n"
                             "default_crl_days = 30\nunique_subject = no\n")
            with open(database, "w", encoding="ascii"):
                pass
        ca = ("ca", "-config", config, "-keyfile", self.path("ca.key"), "-cert", self.ca)
        for name in names:
            openssl(*ca, "-revoke", self.pair(name)[0])
        openssl(*ca, "-gencrl", "-out", crl)
        return crl

    def pair(self, name, **options):
        """As issue, but made once."""
        cert, key = self.path(name + ".pem"), self.path(name + ".key")
        return (cert, key) if os.path.exists(cert) else self.issue(name, **options)

    def server_config(self, port, name="server", demand="yes"):
        """What a server's configuration needs; demand: tls-auth-clients."""
        cert, key = self.pair(name)
        return {"tls_port": port, "tls_cert_file": cert, "tls_key_file": key, "tls_ca_cert_file": self.ca,
                "tls_auth_clients": demand}

    def settings(self, name="client"):
        """What a daemon needs in order to be let in by such a server."""
        cert, key = self.pair(name)
        return {"redis.tls.ca": self.ca, "redis.tls.cert": cert, "redis.tls.key": key}

    def wire(self, name, **options):
        """What a daemon shows over tcp+tls, and whom it believes."""
        cert, key = self.pair(name, **options)
        return {"tls.ca": self.ca, "tls.cert": cert, "tls.key": key}
